"""Pipelines that a test runs on its service: the client, and a look at a run's tasks."""

import itertools
import json
import time
from pathlib import Path

import yaml
from kfp import compiler

from vertex_local.tests.support.waiting import wait_until

FINAL_STATES = [f"PIPELINE_STATE_{state}" for state in ("SUCCEEDED", "FAILED", "CANCELLED")]
STEP = {"base_image": "python:3.11"}
NUMBERS = itertools.count(1)


class Runs:
    """Client that starts pipelines over REST and waits for their end."""

    def __init__(self, service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.root = folder / "root"

    def spec(self, pipeline) -> dict:
        path = self.folder / "pipeline.yaml"
        compiler.Compiler().compile(pipeline, str(path))
        return yaml.safe_load(path.read_text())

    def submit(self, pipeline, *, expect: int = 200, run_id: str = "", **config) -> dict:
        body = {
            "displayName": "test",
            "pipelineSpec": self.spec(pipeline),
            "runtimeConfig": {"gcsOutputDirectory": str(self.root), **config},
        }
        params = {"pipelineJobId": run_id or f"run-{next(NUMBERS)}"}
        response = self.service.call("POST", "pipelineJobs", body, params=params)
        assert response.status_code == expect, response.text
        return response.json()

    def get(self, job: dict) -> dict:
        return self.service.call("GET", f"/v1/{job['name']}").json()

    def wait(self, job: dict, *, timeout_seconds: float = 60) -> dict:
        deadline = time.monotonic() + timeout_seconds
        while (now := self.get(job))["state"] not in FINAL_STATES:
            assert time.monotonic() < deadline, f"not final in time: {now}\n{self.log(job)}"
            time.sleep(0.05)
        return now

    def run(self, pipeline, **parameters) -> dict:
        return self.wait(self.submit(pipeline, parameterValues=parameters))

    def files(self, job: dict) -> Path:
        return self.service.root / "pipelines" / job["name"].rpartition("/")[2]

    def log(self, job: dict) -> str:
        return (self.files(job) / "pipeline.log").read_text()

    def note(self) -> dict:
        return json.loads((self.folder / "note.json").read_text())

    def pids(self, *, timeout_seconds: float = 20) -> list[int]:
        path = self.folder / "pids"
        wait_until(
            lambda: path.exists() and path.read_text(),
            "the step to run",
            timeout_seconds=timeout_seconds,
        )
        return [int(pid) for pid in path.read_text().split()]


def left_in(temp_folder: Path) -> list[Path]:
    """Return the entries of the service's temporary folder."""
    [of_service] = temp_folder.iterdir()
    return list(of_service.iterdir())


def task_states(job: dict) -> dict[str, str]:
    return {task["taskName"]: task["state"] for task in job["jobDetail"]["taskDetails"]}


def task_detail(job: dict, name: str) -> dict:
    return next(task for task in job["jobDetail"]["taskDetails"] if task["taskName"] == name)
