"""Packages of `trainyard compile` run by the SDK alone: no parameter needs a value."""

import time

import pytest

from pipelines.config.built_in import RUNS
from pipelines.package.compile import compile_pipeline, write_package
from vertex_local.tests.support.pipeline_runs import Runs, task_detail
from vertex_local.tests.support.service import PRELOAD_KFP, running_service, sdk_at

LOCATION = "us-central1"
START_TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    return [
        write_package(folder, name=name, text=compile_pipeline("trainyard:test", config=run()))
        for name, run in RUNS.items()
    ]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Start a service whose steps are forks."""
    with running_service(tmp_path_factory.mktemp("own") / "vertex", *PRELOAD_KFP) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(service):
    """The official SDK, initialized with project, location and service."""
    return sdk_at(service)


def test_the_sdk_schedules_each_package_without_a_value(sdk, packages, tmp_path):
    for path in packages:
        job = sdk.PipelineJob(
            display_name=path.stem, template_path=str(path), pipeline_root=str(tmp_path / "root")
        )

        schedule = job.create_schedule(display_name=path.stem, cron="TZ=UTC 0 3 1 1 *")

        assert schedule.state.name == "ACTIVE"
        request = schedule.gca_resource.create_pipeline_job_request.pipeline_job
        assert not dict(request.runtime_config.parameter_values)


@pytest.mark.timeout(120)
def test_the_sdk_runs_a_package_without_a_value_and_its_tasks_know_where_they_are(
    sdk, packages, tmp_path, service
):
    [path] = [one for one in packages if one.stem == "mnist"]
    job = sdk.PipelineJob(
        display_name="mnist",
        template_path=str(path),
        pipeline_root=str(tmp_path / "root"),
        job_id="mnist-1",
    )
    job.submit()
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while "jobDetail" not in service.call("GET", f"/v1/{job.resource_name}").json():
        assert time.monotonic() < deadline, f"no task has started in {START_TIMEOUT_SECONDS} s"
        time.sleep(0.05)
    job.cancel()

    record = Runs(service, tmp_path).wait({"name": job.resource_name}, timeout_seconds=100)

    assert record["state"] == "PIPELINE_STATE_CANCELLED"
    teardown = task_detail(record, "teardown")
    metadata = teardown["execution"]["metadata"]
    assert (metadata["input:project"], metadata["input:location"]) == ("demo", LOCATION)
    assert teardown["state"] == "SUCCEEDED"
