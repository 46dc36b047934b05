"""Schedules with Google's SDK."""

import re
import time

import pytest
import yaml
from kfp import compiler, dsl

from vertex_local.client import ENDS_WHEN_UNUSED_FILE, Lease
from vertex_local.tests.support.service import PARENT, PRELOAD_KFP, running_service
from vertex_local.tests.support.waiting import wait_until

YEARLY = "TZ=Europe/Berlin 0 3 1 1 *"
CLOCK_SPEED = 600  # a minute takes a tenth of a second


@dsl.component(base_image="python:3.11")
def note(text: str) -> str:
    return text


@dsl.pipeline(name="notes")
def notes(text: str = "none"):
    note(text=f"{text} {dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER}")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "notes.yaml"
    compiler.Compiler().compile(notes, str(path))
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Serve with a fast clock until the last user ends, as for a command."""
    root = tmp_path_factory.mktemp("schedules") / "vertex"
    root.mkdir()
    user = Lease(root)
    options = ["--while-used", "--clock-speed", str(CLOCK_SPEED), *PRELOAD_KFP]
    with running_service(root, *options) as service:
        yield service
    user.close()


def test_runs_start_on_time_once_the_service_stays(service, package, tmp_path):
    def runs() -> list[dict]:
        query = {"filter": f'schedule_name="{name}"'}
        return service.do("GET", "pipelineJobs", params=query).get("pipelineJobs", [])

    def get(name: str) -> dict:
        return service.do("GET", f"/v1/{name}")

    job = {
        "displayName": "minutely",
        "pipelineSpec": yaml.safe_load(package.read_text()),
        "runtimeConfig": {"gcsOutputDirectory": str(tmp_path / "root")},
    }
    schedule = {
        "displayName": "minutely",
        "cron": "* * * * *",
        "maxRunCount": "2",
        "maxConcurrentRunCount": "1",
        "allowQueueing": True,
        "createPipelineJobRequest": {"parent": PARENT, "pipelineJob": job},
    }
    name = service.do("POST", "schedules", schedule)["name"]
    time.sleep(0.2)
    assert runs() == [], "it may end at any moment, and starts none of two that are due"

    (service.root / ENDS_WHEN_UNUSED_FILE).unlink()
    wait_until(lambda: get(name)["state"] == "COMPLETED", "the start of two runs")

    assert len(runs()) == 2
    for run in runs():
        wait_until(
            lambda run=run: get(run["name"])["state"] == "PIPELINE_STATE_SUCCEEDED",
            f"the success of {run['name']}",
        )
        [detail] = get(run["name"])["jobDetail"]["taskDetails"]
        said = detail["execution"]["metadata"]["output:Output"]
        assert re.sub("[^0-9]", "", said) == run["name"][-14:], "the time it was due"
    last = get(name)["lastScheduledRunResponse"]["runResponse"]
    assert last == max(run["name"] for run in runs())
