"""Training pipelines: Google's classes, own requests, kills and cancels."""

import tarfile

import pytest

from vertex_local import client
from vertex_local.api.routes import Call
from vertex_local.errors import ApiError
from vertex_local.tests.support.jobs import python_job, wait_for_end
from vertex_local.tests.support.service import (
    PRELOAD_KFP,
    SERVER_SCRIPT,
    running_service,
    sdk_at,
)
from vertex_local.training import resource as training

SCRIPT = """
import argparse, os
from google.cloud import storage
parser = argparse.ArgumentParser()
parser.add_argument("--units")
print("units", parser.parse_args().units, os.environ.get("COLOUR"))
address = os.environ["AIP_MODEL_DIR"] + "saved_model.pb"
storage.Blob.from_uri(address, client=storage.Client()).upload_from_string("trained")
"""
CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
SERVER = {
    "model_serving_container_image_uri": "any",
    "model_serving_container_command": ["python", str(SERVER_SCRIPT)],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the buckets, of which one is for staging."""
    folder = tmp_path_factory.mktemp("buckets")
    (folder / "staging").mkdir()
    return folder


@pytest.fixture(scope="module")
def service(tmp_path_factory, folder):
    root = tmp_path_factory.mktemp("training") / "vertex"
    with running_service(root, "--buckets", str(folder), *PRELOAD_KFP) as running:
        yield running


@pytest.fixture
def sdk(service, monkeypatch):
    """Return Google's SDK, with its storage client at the service's buckets."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", client.announced(service.root)["storage"])
    found = sdk_at(service)
    found.init(staging_bucket="gs://staging")
    monkeypatch.setattr("google.cloud.aiplatform.training_jobs._JOB_WAIT_TIME", 0.2)
    monkeypatch.setattr("google.cloud.aiplatform.training_jobs._LOG_WAIT_TIME", 0.2)
    return found


def request(code="pass", **fields):
    return {
        "displayName": "t",
        "trainingTaskDefinition": CUSTOM_TASK,
        "trainingTaskInputs": python_job(code)["jobSpec"],
        **fields,
    }


def test_a_script_is_trained_and_its_model_uploaded_and_served(service, sdk, folder, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    job = sdk.CustomTrainingJob(
        display_name="mine", script_path=str(script), container_uri="any", **SERVER
    )
    model = job.run(
        model_display_name="trained", args=["--units", "7"], environment_variables={"COLOUR": "red"}
    )
    logs = service.root.glob("jobs/*/workerpool0-0.log")
    assert any("units 7 red" in log.read_text() for log in logs)
    assert model.display_name == "trained"
    assert list(folder.rglob("saved_model.pb"))
    endpoint = model.deploy(machine_type="n1-standard-2")
    assert endpoint.predict([4]).predictions[0]["double"] == 8


def test_a_container_and_a_package_are_trained_as_versions_of_a_model(sdk, folder, tmp_path):
    command = ["python", "-c", SCRIPT]
    job = sdk.CustomContainerTrainingJob(
        display_name="c", container_uri="any", command=command, **SERVER
    )
    first = job.run(model_display_name="trained", base_output_dir="gs://staging/c")
    assert (folder / "staging" / "c" / "model" / "saved_model.pb").exists()
    package = tmp_path / "mine-1.0"
    (package / "mine").mkdir(parents=True)
    (package / "mine" / "__init__.py").touch()
    (package / "mine" / "task.py").write_text(SCRIPT)
    setup = "from setuptools import setup; setup(name='mine', version='1.0', packages=['mine'])"
    (package / "setup.py").write_text(setup)
    with tarfile.open(folder / "staging" / "mine-1.0.tar.gz", "w:gz") as archive:
        archive.add(package, arcname="mine-1.0")
    job = sdk.CustomPythonPackageTrainingJob(
        display_name="p",
        python_package_gcs_uri="gs://staging/mine-1.0.tar.gz",
        python_module_name="mine.task",
        container_uri="any",
        **SERVER,
    )
    second = job.run(model_display_name="trained", parent_model=first.resource_name)
    assert (second.name, second.version_id) == (first.name, "2")


def test_without_a_model_only_the_job_runs(service):
    created = service.do("POST", "trainingPipelines", request(labels={"run": "r1"}))
    ended = wait_for_end(service, created)
    assert ended["state"] == "PIPELINE_STATE_SUCCEEDED"
    job = service.do("GET", f"/v1/{ended['trainingTaskMetadata']['backingCustomJob']}")
    assert (job["state"], job["labels"]) == ("JOB_STATE_SUCCEEDED", {"run": "r1"})
    listed = service.do("GET", 'trainingPipelines?filter=labels.run="r1"')["trainingPipelines"]
    assert [one["name"] for one in listed] == [created["name"]]
    service.do("DELETE", f"/v1/{created['name']}")
    assert service.call("GET", f"/v1/{created['name']}").status_code == 404


@pytest.mark.parametrize(
    ("code", "reason"),
    [("raise SystemExit('out of cheese')", "out of cheese"), ("pass", "there are no files in")],
)
def test_a_training_without_a_model_fails_with_the_reason(service, tmp_path, code, reason):
    body = request(code, modelToUpload={"displayName": "m", "containerSpec": {"imageUri": "any"}})
    body["trainingTaskInputs"]["baseOutputDirectory"] = {"outputUriPrefix": str(tmp_path / "out")}
    ended = wait_for_end(service, service.do("POST", "trainingPipelines", body))
    assert ended["state"] == "PIPELINE_STATE_FAILED"
    assert reason in ended["error"]["message"]
    assert "m" not in [one["displayName"] for one in service.do("GET", "models")["models"]]


def test_a_cancelled_training_ends_its_job_and_a_killed_service_leaves_the_reason(service):
    cancelled, killed = (
        service.do("POST", "trainingPipelines", request("import time; time.sleep(600)"))
        for _ in range(2)
    )
    service.do("POST", f"/v1/{cancelled['name']}:cancel", {})
    ended = wait_for_end(service, cancelled)
    assert ended["state"] == "PIPELINE_STATE_CANCELLED"
    job = service.do("GET", f"/v1/{ended['trainingTaskMetadata']['backingCustomJob']}")
    assert job["state"] == "JOB_STATE_CANCELLED"

    service.kill()
    service.start()
    ended = wait_for_end(service, killed)
    assert ended["state"] == "PIPELINE_STATE_FAILED"
    assert killed["trainingTaskMetadata"]["backingCustomJob"] in ended["error"]["message"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"trainingTaskDefinition": "gs://g/automl_tabular_1.0.0.yaml"}, "automl_tabular"),
        ({"inputDataConfig": {"datasetId": "5"}}, "inputDataConfig"),
        ({"trainingTaskInputs": {"workerPoolSpecs": []}}, "worker_pool_specs"),
        ({"trainingTaskInputs": {"workers": 1}}, "workers"),
        ({"displayName": ""}, "display_name"),
        (
            {"modelToUpload": {"displayName": "m", "containerSpec": {"imageUri": "any"}}},
            "baseOutputDirectory",
        ),
        (
            {
                "modelToUpload": {"displayName": "m", "containerSpec": {"imageUri": "any"}},
                "parentModel": "projects/demo/locations/us-central1/models/9",
            },
            "models/9",
        ),
    ],
)
@pytest.mark.fast
def test_what_cannot_be_trained_is_refused_and_leaves_nothing(idle_service, change, problem):
    call = Call(args={"project": "demo", "location": "us-central1"}, body=request() | change)
    with pytest.raises(ApiError, match=problem) as error:
        training.create(idle_service, call)
    assert error.value.code in (400, 404)
    assert idle_service.store.list_kind("customJobs") == []
