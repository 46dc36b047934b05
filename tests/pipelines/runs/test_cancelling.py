"""Cancelling a run at any moment of it: one end, one exit task, nothing left, honest followers."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from kfp import compiler, dsl

from vertex_local.tests.support.pipeline_runs import STEP, Runs, left_in, task_detail
from vertex_local.tests.support.pipeline_steps import close_down, hang, hold, notes
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import PRELOAD_KFP, running_service
from vertex_local.tests.support.waiting import wait_until

PARENT = "projects/local/locations/us-central1"  # where the commands look
FAILED = 1  # the exit code
WAIT_SECONDS = 60


@dsl.component(**STEP)
def fail_always(folder: str):
    from pathlib import Path

    (Path(folder) / "attempt").touch()
    raise ValueError("not yet")


@dsl.pipeline(name="in-a-step")
def in_a_step(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        hang(folder=folder)


@dsl.pipeline(name="in-training")
def in_training(folder: str):
    code = f"import os, time; open('{folder}/pids', 'w').write(str(os.getpid())); time.sleep(600)"
    container = {"image_uri": "any", "command": ["python", "-c", code]}
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        CustomTrainingJobOp(
            display_name="train",
            worker_pool_specs=[{**pool, "container_spec": container}],
            project="local",
            location="us-central1",
        )


@dsl.pipeline(name="in-back-off")
def in_back_off(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        fail_always(folder=folder).set_retry(num_retries=3, backoff_duration="600s")


@dsl.pipeline(name="in-the-exit-task")
def in_the_exit_task(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        dsl.importer(artifact_uri="/nowhere", artifact_class=dsl.Dataset)


def in_a_build(address: str):
    """Return a pipeline whose step waits for the download of a package."""

    @dsl.component(**STEP, packages_to_install=[f"fares @ {address}"])
    def needs_package():
        pass

    @dsl.pipeline(name="in-a-build")
    def pipeline(folder: str):
        with dsl.ExitHandler(close_down(folder=folder, name="notes")):
            needs_package()

    return pipeline


class Moment(NamedTuple):
    """A pipeline, the event after which it is cancelled, and how often."""

    pipeline: Callable
    has_come: Callable[[Runs], object]
    num_cancels: int = 1


def job_exists(runs: Runs) -> bool:
    path = f"/v1/{PARENT}/customJobs"
    return bool(runs.service.do("GET", path).get("customJobs"))


def file_exists(name: str) -> Callable[[Runs], object]:
    return lambda runs: (runs.folder / name).exists()


MOMENTS = {
    "as soon as it exists": Moment(in_a_step, lambda runs: True),
    "its job has just been created": Moment(in_training, job_exists),
    "in training": Moment(in_training, file_exists("pids")),
    "in the back-off of a retry": Moment(in_back_off, file_exists("attempt")),
    "in the exit task": Moment(in_the_exit_task, file_exists("notes")),
    "twice": Moment(in_a_step, file_exists("pids"), num_cancels=2),
}


@pytest.fixture
def runs(tmp_path, temp_folder, monkeypatch):
    monkeypatch.setenv("VERTEX_LOCAL_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    with running_service(tmp_path / "vertex", *PRELOAD_KFP) as service:
        yield Runs(service, tmp_path)


class Follower:
    """A `trainyard` command that runs until the run or job has ended."""

    def __init__(self, runs: Runs, *arguments: str) -> None:
        self.log = runs.folder / f"{arguments[0]}.out"
        env = {**os.environ, "VERTEX_EMULATOR_HOST": runs.service.url.removeprefix("http://")}
        command = [sys.executable, "-m", "pipelines.cli", *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def exit_code(self) -> int:
        try:
            return self.process.wait(WAIT_SECONDS)
        finally:
            self.process.kill()


def cancel(runs: Runs, moment: Moment) -> tuple[dict, list[Follower]]:
    """Run a pipeline with followers and cancel it at its moment; return its end."""
    package = runs.folder / "package.yaml"
    compiler.Compiler().compile(moment.pipeline, str(package))
    followers = [Follower(runs, "submit", str(package), "--wait", "--set", f"folder={runs.folder}")]
    path = f"/v1/{PARENT}/pipelineJobs"

    def jobs() -> list[dict]:
        return runs.service.do("GET", path).get("pipelineJobs", [])

    wait_until(jobs, "the run", timeout_seconds=WAIT_SECONDS)
    [job] = jobs()
    followers.append(Follower(runs, "runs", "logs", job["name"].rpartition("/")[2], "--follow"))
    wait_until(lambda: moment.has_come(runs), "the moment", timeout_seconds=WAIT_SECONDS)
    for trained in runs.service.do("GET", f"/v1/{PARENT}/customJobs").get("customJobs", []):
        job_id = trained["name"].rpartition("/")[2]
        followers.append(Follower(runs, "jobs", "logs", job_id, "--follow"))
    for _ in range(moment.num_cancels):
        runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
    return job, followers


def check_end(runs: Runs, job: dict, followers: list[Follower], temp_folder: Path) -> None:
    job = runs.wait(job, timeout_seconds=WAIT_SECONDS)
    assert job["state"] == "PIPELINE_STATE_CANCELLED", job
    assert job["error"]["code"] == 1
    has_begun = any("startTime" in one for one in job.get("jobDetail", {}).get("taskDetails", []))
    assert len(notes(runs)) == has_begun, "the exit task runs once, if any task has run"
    pids = runs.folder.glob("pids")
    assert not any(is_running(int(pid)) for path in pids for pid in path.read_text().split())
    for trained in runs.service.do("GET", f"/v1/{PARENT}/customJobs").get("customJobs", []):
        assert trained["state"] == "JOB_STATE_CANCELLED"
    assert left_in(temp_folder) == []
    for follower in followers:
        assert follower.exit_code() == FAILED, follower.log.read_text()
        assert "CANCELLED" in follower.log.read_text()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_a_cancelled_run_ends_once_and_leaves_nothing(runs, temp_folder, moment):
    held = hold(runs)
    job, followers = cancel(runs, moment)
    held.unlink()
    check_end(runs, job, followers, temp_folder)


@pytest.mark.timeout(240)
def test_a_run_that_is_cancelled_while_uv_waits_for_a_server_ends(runs, temp_folder, listener):
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/fares.tar.gz"
    listener.settimeout(WAIT_SECONDS)
    with ExitStack() as connections:
        moment = Moment(
            in_a_build(address), lambda runs: connections.enter_context(listener.accept()[0])
        )
        job, followers = cancel(runs, moment)
    check_end(runs, job, followers, temp_folder)
    assert not list((runs.folder / "environments").iterdir())


@pytest.mark.timeout(120)
def test_a_cancel_during_the_exit_task_says_that_the_results_stay(runs, temp_folder):
    held = hold(runs)
    job, followers = cancel(runs, MOMENTS["in the exit task"])
    held.unlink()
    check_end(runs, job, followers, temp_folder)
    job = runs.get(job)
    assert [one["state"] for one in notes(runs)] == ["SUCCEEDED"], "it had started before"
    assert task_detail(job, "close-down")["state"] == "SUCCEEDED"
    assert "their results stay" in job["error"]["message"]
