"""Teardown of one of a schedule's runs."""

import pytest
import yaml
from kfp import compiler, dsl

from components.model_version.registry import list_versions
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.labels import CANDIDATE, STATE_LABEL
from components.teardown.run_resources import UPLOAD, RunResources
from components.teardown.teardown import tear_down


@dsl.component(install_kfp_package=False, base_image="python:3.11")
def note(text: str) -> str:
    return text


@dsl.pipeline(name="notes")
def notes(text: str = "none"):
    note(text=f"{text} {dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER}")


@pytest.fixture
def job(tmp_path):
    compiler.Compiler().compile(notes, str(tmp_path / "notes.yaml"))
    return {
        "displayName": "notes",
        "pipelineSpec": yaml.safe_load((tmp_path / "notes.yaml").read_text()),
        "runtimeConfig": {"gcsOutputDirectory": str(tmp_path / "root")},
    }


def test_teardown_after_a_failure_keeps_the_other_runs_of_the_schedule(
    service, monkeypatch, upload, job
):
    monkeypatch.setenv(EMULATOR_VARIABLE, service.host)
    api = connect("demo", "us-central1")
    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    tasks[UPLOAD] = tasks.pop("note")
    labels = [
        api.post(f"{api.parent}/pipelineJobs?pipelineJobId=night-{night}", job)["labels"]
        for night in (1, 2)
    ]
    labels = [{**one, STATE_LABEL: CANDIDATE} for one in labels]
    first = upload(labels=labels[0])
    upload(labels=labels[1], parentModel=first["model"])

    tear_down(RunResources.of_run(api, "night-2"))

    assert [v["labels"] for v in list_versions(api, first["model"])] == [labels[0]]
