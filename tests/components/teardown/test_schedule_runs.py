"""Teardown of one of a schedule's runs."""

from kfp import dsl

from components.model_version.registry import list_versions
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.labels import CANDIDATE, STATE_LABEL
from components.teardown.run_resources import UPLOAD, RunResources
from components.teardown.teardown import tear_down
from vertex_local.tests.support.pipeline_runs import STEP, Runs


@dsl.component(**STEP)
def note(text: str) -> str:
    return text


@dsl.pipeline(name="notes")
def notes(text: str = "none"):
    note(text=f"{text} {dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER}")


def test_teardown_after_a_failure_keeps_the_other_runs_of_the_schedule(
    own_service, monkeypatch, upload, tmp_path
):
    runs = Runs(own_service, tmp_path)
    spec = runs.spec(notes)
    monkeypatch.setenv(EMULATOR_VARIABLE, own_service.host)
    api = connect("demo", "us-central1")
    tasks = spec["root"]["dag"]["tasks"]
    tasks[UPLOAD] = tasks.pop("note")
    root = {"gcsOutputDirectory": str(tmp_path / "root")}
    job = {"displayName": "notes", "pipelineSpec": spec, "runtimeConfig": root}
    labels = [
        api.post(f"{api.parent}/pipelineJobs?pipelineJobId=night-{night}", job)["labels"]
        for night in (1, 2)
    ]
    labels = [{**one, STATE_LABEL: CANDIDATE} for one in labels]
    first = upload(labels=labels[0])
    upload(labels=labels[1], parentModel=first["model"])

    tear_down(RunResources.of_run(api, "night-2"))

    assert [v["labels"] for v in list_versions(api, first["model"])] == [labels[0]]
