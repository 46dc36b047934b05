"""A run that is killed between its upload and its promotion leaves what was served before it."""

import time

import pytest
from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from google_cloud_pipeline_components.v1.endpoint import ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl

from components.endpoint.component import ensure_endpoint
from components.model_version.component import find_parent_model, promote
from components.teardown.component import teardown
from tests.service.conftest import running_service
from tests.service.test_interrupted_runs import ended, kill_runner
from tests.service.test_pipelines import SERVER_SCRIPT, STEP, WHERE, Runs, ask
from vertex_local import events

pytestmark = pytest.mark.usefixtures("temp_folder")


@dsl.component(**STEP)
def make_model(folder: str, server: str, model: dsl.Output[UnmanagedContainerModel]):
    from pathlib import Path

    (Path(folder) / "model").mkdir(exist_ok=True)
    (Path(folder) / "model" / "saved_model.pb").write_text("model")
    model.uri = f"{folder}/model"
    model.metadata["containerSpec"] = {
        "imageUri": "any",
        "command": ["python", server],
        "deploymentTimeout": "60s",
    }


@dsl.pipeline(name="promotes")
def promotes(folder: str, server: str):
    run = dsl.PIPELINE_JOB_NAME_PLACEHOLDER
    exit_task = teardown(run=run, keep_endpoint=True, **WHERE).set_caching_options(False)
    with dsl.ExitHandler(exit_task):
        made = make_model(folder=folder, server=server)
        parent = find_parent_model(display_name="tiny", **WHERE)
        uploaded = ModelUploadOp(
            display_name="tiny",
            parent_model=parent.outputs["parent_model"],
            unmanaged_container_model=made.outputs["model"],
            **WHERE,
        )
        endpoint = ensure_endpoint(display_name="tiny", run=run, **WHERE).after(uploaded)
        served = {"model": uploaded.outputs["model"], "endpoint": endpoint.outputs["endpoint"]}
        deployed = ModelDeployOp(**served, traffic_split={"0": "100"})
        checked = ask(**served).after(deployed)
        promoted = promote(**served, **WHERE).after(checked)
        for task in (parent, uploaded, endpoint, deployed, checked, promoted):
            task.set_caching_options(False)


def await_start(runs: Runs, job: dict, task: str) -> None:
    deadline = time.monotonic() + 60
    while not any(
        one["event"] == "task_started" and one["name"] == task
        for one in events.read(runs.files(job))
    ):
        assert time.monotonic() < deadline, f"{task} did not start: {runs.log(job)}"
        time.sleep(0.002)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("victim", ["runner", "service"])
def test_a_run_killed_before_its_promotion_leaves_only_what_was_there_before(tmp_path, victim):
    preload = ("--preload", "kfp.local,kfp.dsl.executor_main")
    with running_service(tmp_path / "vertex", *preload) as service:
        runs = Runs(service, tmp_path)
        parameters = {"folder": str(tmp_path), "server": str(SERVER_SCRIPT)}
        first = ended(runs, runs.submit(promotes, parameterValues=parameters))
        assert first["state"] == "PIPELINE_STATE_SUCCEEDED", first["error"]
        for task in ("model-upload", "model-deploy", "ask"):
            job = runs.submit(promotes, parameterValues=parameters)
            await_start(runs, job, task)
            if victim == "runner":
                kill_runner(runs, job)
            else:
                service.kill()
                service.start()
            job = ended(runs, job)
            assert job["state"] == "PIPELINE_STATE_FAILED", task
            assert job["error"]["message"].startswith("interrupted: "), task
            [model] = service.do("GET", "models")["models"]
            [version] = service.do("GET", f"/v1/{model['name']}:listVersions")["models"]
            assert (version["versionId"], version["versionAliases"]) == ("1", ["default"]), task
            [endpoint] = service.do("GET", "endpoints")["endpoints"]
            [deployed] = endpoint["deployedModels"]
            assert deployed["modelVersionId"] == "1", task
            assert endpoint["trafficSplit"] == {deployed["id"]: 100}, task
