"""Kills between the upload of a version and its promotion: the next service tears the run down."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from tests.pipeline.test_whole_run import PRELOAD, WAIT_TIMEOUT_SECONDS, Home
from vertex_local import events

STEPS = ["model-upload", "ensure-endpoint", "model-deploy", "predict", "promote"]


class ServedHome(Home):
    """A home whose service this starts, kills and starts again."""

    @property
    def root(self) -> Path:
        return self.state / "vertex"

    def serve(self) -> subprocess.Popen:
        arguments = ["serve", "--root", str(self.root), "--preload", PRELOAD]
        service = self.start(*arguments, module="vertex_local.cli")
        assert "ready" in service.stdout.readline()
        return service

    def resources(self, kind: str) -> list[dict]:
        with sqlite3.connect(f"file:{self.root / 'vertex.db'}?mode=ro", uri=True) as store:
            rows = store.execute("SELECT name, body FROM resources ORDER BY position")
            return [json.loads(body) for name, body in rows if name.split("/")[-2] == kind]

    def await_event(self, before: set[str], event: str, task: str) -> str:
        """Waits until the journal of a new run has an event of a task; returns the run's id."""

        def run_id() -> str:
            for path in (self.root / "pipelines").glob("*"):
                journal = events.read(path)
                if path.name not in before and any(
                    one["event"] == event and one["name"] == task
                    for one in journal
                    if "unique_name" in one
                ):
                    return path.name
            return ""

        return self.await_true(run_id, f"{event} of {task}")

    def await_true(self, holds, what: str):
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while not (found := holds()):
            assert time.monotonic() < deadline, f"waited for {what}"
            time.sleep(0.005)
        return found

    def ended_run(self, run_id: str) -> dict:
        def run() -> dict:
            runs = [r for r in self.resources("pipelineJobs") if r["name"].endswith(f"/{run_id}")]
            return runs[0] if "endTime" in runs[0] else {}

        return self.await_true(run, f"the end of {run_id}")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("victim", ["service", "runner"])
def test_a_run_killed_between_upload_and_promotion_leaves_no_version_and_serves_nothing(
    tmp_path, tiny_mnist, victim
):
    home = ServedHome(tmp_path / "home", tiny_mnist(num_train=64, num_test=20))
    service = home.serve()
    for step in STEPS:
        before = {path.name for path in (home.root / "pipelines").glob("*")}
        command = home.start_run("--set", "thresholds.accuracy=0")
        run_id = home.await_event(before, "task_started", step)
        command.kill()  # it would tear down, too
        command.communicate()
        if victim == "service":
            os.kill(service.pid, signal.SIGKILL)
            service.communicate(timeout=WAIT_TIMEOUT_SECONDS)
            service = home.serve()
        else:
            state = json.loads((home.root / "pipelines" / run_id / "state.json").read_text())
            os.kill(state["replicas"]["pipeline"]["pid"], signal.SIGKILL)
        run = home.ended_run(run_id)
        assert run["state"] == "PIPELINE_STATE_FAILED", step
        assert "interrupted: " in run["error"]["message"], step
        assert "could not be run" not in run["error"]["message"], step
        assert home.resources("models") == [], step
        assert [e for e in home.resources("endpoints") if e.get("deployedModels")] == [], step
    service.terminate()
    service.communicate(timeout=WAIT_TIMEOUT_SECONDS)
    home.assert_nothing_is_left()
