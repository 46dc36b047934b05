"""Flows of pipeline jobs and schedules: test_pipeline_job.py and test_pipeline_job_schedule.py."""

import contextlib
import itertools
from pathlib import Path

from google.api_core import exceptions
from google.cloud import aiplatform, aiplatform_v1
from google.cloud.aiplatform import pipeline_job_schedules
from google.cloud.aiplatform_v1.types import PipelineState
from kfp import compiler, dsl

from tools.flows.calls import Calls

ROOT = "gs://staging/runs"
NUMBERS = itertools.count(1)
EVERY_DAY, EVERY_HOUR = "0 3 * * *", "0 * * * *"


@dsl.component(base_image="python:3.11")
def train(number_of_epochs: int, learning_rate: float) -> str:
    print(f"{number_of_epochs=} {learning_rate=}")
    return "trained"


@dsl.component(base_image="python:3.11")
def fail():
    raise RuntimeError("on purpose")


@dsl.component(base_image="python:3.11")
def sleep():
    import time

    time.sleep(300)


@dsl.component(base_image="python:3.11")
def read(data: dsl.Input[dsl.Dataset]) -> str:
    with open(data.path) as file:
        return file.read()


@dsl.pipeline(name="training")
def training(number_of_epochs: int = 10):
    train(number_of_epochs=number_of_epochs, learning_rate=0.1)


@dsl.pipeline(name="failing")
def failing():
    fail()


@dsl.pipeline(name="sleeping")
def sleeping():
    sleep()


@dsl.pipeline(name="reading")
def reading(data: dsl.Input[dsl.Dataset]):
    read(data=data)


def package(pipeline, name: str = "package.yaml") -> str:
    """Compile a pipeline; return the file."""
    compiler.Compiler().compile(pipeline, name)
    return name


def job(pipeline=training, **fields):
    """Return a job of a pipeline, not yet submitted."""
    defaults = {"pipeline_root": ROOT, "job_id": f"run-{next(NUMBERS)}"}
    return aiplatform.PipelineJob(
        display_name="run", template_path=package(pipeline), **{**defaults, **fields}
    )


def pipeline_jobs(calls: Calls) -> None:
    """Submit, wait, list, cancel, delete."""
    run = calls("PipelineJob", lambda: job(labels={"team": "a"}, enable_caching=False))
    calls("submit", lambda: run.submit(service_account="me@project.iam"))
    calls("wait", run.wait)
    calls("state", lambda: run.state == PipelineState.PIPELINE_STATE_SUCCEEDED)
    calls("done", lambda: run.done() and not run.has_failed)
    calls("task_details", lambda: len(run.task_details) >= 1)
    calls("gca_resource", lambda: run.gca_resource.service_account == "me@project.iam")
    calls("labels", lambda: run.labels["team"] == "a")
    calls("to_dict", lambda: run.to_dict()["displayName"] == "run")
    calls("get", lambda: aiplatform.PipelineJob.get(run.resource_name).name == run.name)
    calls("list", lambda: run.name in [one.name for one in aiplatform.PipelineJob.list()])
    calls("list filter", lambda: not aiplatform.PipelineJob.list(filter='display_name="no"'))
    calls("list order", lambda: aiplatform.PipelineJob.list(order_by="create_time desc"))
    calls("list simple view", simple_view)
    calls("task logs", lambda: Path("package.yaml").is_file() and run.task_details[0].start_time)
    calls("run", lambda: finished(job(parameter_values={"number_of_epochs": 3}), "SUCCEEDED"))
    calls(
        "run JSON",
        lambda: finished(
            aiplatform.PipelineJob("j", package(training, "p.json"), pipeline_root=ROOT),
            "SUCCEEDED",
        ),
    )
    calls("run without root", lambda: finished(job(pipeline_root=None), "SUCCEEDED"))
    calls("run from bucket", from_bucket)
    calls("job_id", lambda: named().name == "mine-1")
    calls.raises("job_id again", exceptions.Conflict, named)
    calls("failure_policy", lambda: job(failure_policy="fast").submit())
    calls(
        "encryption",
        lambda: job(
            encryption_spec_key_name="projects/p/locations/l/keyRings/k/cryptoKeys/c"
        ).submit(),
    )
    calls("network", lambda: job().submit(network="projects/1/global/networks/n"))
    calls("reserved_ip_ranges", lambda: job().submit(reserved_ip_ranges=["range"]))
    calls("default service account", lambda: bool(job_default_account()))
    calls("cached", lambda: finished(job(enable_caching=True), "SUCCEEDED"))
    calls("clone", lambda: clone(run))
    calls("sync=False", asynchronous)
    calls("error", lambda: failed().gca_resource.error.message)
    calls("cancel", cancelled)
    calls.raises("wrong parameter", ValueError, lambda: job(parameter_values={"x": 1}).submit())
    calls("input_artifacts", input_artifacts)
    calls("delete", run.delete)
    calls.raises(
        "get deleted", exceptions.NotFound, lambda: aiplatform.PipelineJob.get(run.resource_name)
    )
    calls("batch_delete_pipeline_jobs", lambda: batch("delete"))
    calls("batch_cancel_pipeline_jobs", lambda: batch("cancel"))
    calls("submit experiment", lambda: job().submit(experiment="mine"))
    calls("get_pipeline_df", lambda: aiplatform.get_pipeline_df(pipeline="training"))


def simple_view() -> bool:
    short = aiplatform.PipelineJob.list(enable_simple_view=True)[0].gca_resource
    full = aiplatform.PipelineJob.list()[0].gca_resource
    return bool(full.service_account and not short.service_account)


def finished(run, state: str) -> bool:
    """Run a job to its end."""
    run.run()
    return run.state.name == f"PIPELINE_STATE_{state}"


def from_bucket() -> bool:
    from google.cloud import storage

    storage.Client().bucket("staging").blob("p.yaml").upload_from_filename(package(training))
    run = aiplatform.PipelineJob("run", "gs://staging/p.yaml", pipeline_root=ROOT)
    return finished(run, "SUCCEEDED")


def named():
    run = job(job_id="mine-1")
    run.submit()
    return run


def clone(run) -> bool:
    copy = run.clone(display_name="copy")
    copy.submit()
    return copy.display_name == "copy" and copy.name != run.name


def job_default_account() -> str:
    run = job()
    run.submit()
    return run.gca_resource.service_account


def asynchronous() -> bool:
    run = job()
    run.run(sync=False)
    run.wait_for_resource_creation()
    run.wait()
    return bool(run.done())


def failed():
    run = job(failing)
    try:
        run.run()
    except RuntimeError:
        return run
    raise AssertionError("it succeeded")


def cancelled() -> bool:
    run = job(sleeping)
    run.submit()
    run.cancel()
    with contextlib.suppress(RuntimeError):  # it was cancelled
        run._block_until_complete()
    return run.state == PipelineState.PIPELINE_STATE_CANCELLED


def input_artifacts() -> bool:
    """Needs an artifact of Vertex ML Metadata."""
    artifact = aiplatform.Artifact.create(schema_title="system.Dataset", uri="gs://staging/p.yaml")
    run = job(reading, input_artifacts={"data": artifact.resource_name})
    return finished(run, "SUCCEEDED")


def batch(verb: str) -> bool:
    run = job(sleeping if verb == "cancel" else training)
    run.run() if verb == "delete" else run.submit()
    client = aiplatform_v1.PipelineServiceClient()
    method = getattr(client, f"batch_{verb}_pipeline_jobs")
    parent = run.resource_name.rpartition("/pipelineJobs/")[0]
    response = method(request={"parent": parent, "names": [run.resource_name]}).result(60)
    return [one.name for one in response.pipeline_jobs] == [run.resource_name]


def schedules(calls: Calls) -> None:
    """Create, pause, update, resume, wait for two runs, delete."""
    schedule = calls("PipelineJobSchedule", lambda: scheduled("first"))
    arguments = {"cron": EVERY_DAY, "max_run_count": 2, "max_concurrent_run_count": 2}
    calls("create", lambda: schedule.create(**arguments))
    calls("pause", schedule.pause)
    calls("state", lambda: schedule.state.name == "PAUSED")
    calls("cron", lambda: schedule.cron == EVERY_DAY)
    calls("update cron", lambda: schedule.update(cron=EVERY_HOUR))
    calls("cron updated", lambda: schedule.cron == EVERY_HOUR)
    calls("resume", lambda: schedule.resume(catch_up=True))
    calls("state active", lambda: schedule.state.name == "ACTIVE")
    calls("next_run_time", lambda: bool(schedule.gca_resource.next_run_time))
    calls("wait", schedule.wait)
    calls("list_jobs", lambda: len(schedule.list_jobs()) == 2)
    calls("list_jobs full", lambda: full_jobs(schedule))
    calls("get", lambda: got(schedule).max_run_count == 2)
    calls("list", lambda: len(pipeline_job_schedules.PipelineJobSchedule.list()) == 1)
    calls("create_schedule", lambda: job().create_schedule("0 3 1 1 *", "second").delete())
    calls("update count", lambda: scheduled_and_updated().max_run_count == 9)
    calls("delete", schedule.delete)
    calls.raises("get deleted", exceptions.NotFound, lambda: got(schedule))


def scheduled(name: str):
    return pipeline_job_schedules.PipelineJobSchedule(pipeline_job=job(), display_name=name)


def scheduled_and_updated():
    schedule = scheduled("third")
    schedule.create(cron="0 3 1 1 *", allow_queueing=True, end_time="2036-01-01T00:00:00Z")
    schedule.update(max_run_count=9)
    return schedule


def got(schedule):
    return pipeline_job_schedules.PipelineJobSchedule.get(schedule.resource_name)


def full_jobs(schedule) -> bool:
    short, full = (schedule.list_jobs(enable_simple_view=simple)[0] for simple in (True, False))
    return bool(full.gca_resource.service_account and not short.gca_resource.service_account)
