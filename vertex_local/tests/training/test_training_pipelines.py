"""Training pipelines: Google's classes, own requests, kills and cancels."""

import tarfile
import time

import pytest

from vertex_local import client
from vertex_local.tests.support.service import SERVER_SCRIPT, running_service, sdk_at

SCRIPT = """
import argparse, os, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--units")
print("units", parser.parse_args().units, os.environ.get("COLOUR"))
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "saved_model.pb").write_text("trained")
"""
CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
FINAL_STATES = {f"PIPELINE_STATE_{state}" for state in ("SUCCEEDED", "FAILED", "CANCELLED")}
SERVER = {
    "model_serving_container_image_uri": "any",
    "model_serving_container_command": ["python", str(SERVER_SCRIPT)],
}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "buckets"


@pytest.fixture
def service(tmp_path, folder):
    with running_service(tmp_path / "vertex", "--buckets", str(folder)) as running:
        yield running


@pytest.fixture
def sdk(service, monkeypatch):
    """Return Google's SDK, with its storage client at the service's buckets."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", client.announced(service.root)["storage"])
    found = sdk_at(service.url)
    found.init(staging_bucket="gs://staging")
    monkeypatch.setattr("google.cloud.aiplatform.training_jobs._JOB_WAIT_TIME", 0.2)
    monkeypatch.setattr("google.cloud.aiplatform.training_jobs._LOG_WAIT_TIME", 0.2)
    return found


def request(code="pass", **fields):
    container = {"imageUri": "any", "command": ["python", "-c", code]}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
    return {
        "displayName": "t",
        "trainingTaskDefinition": CUSTOM_TASK,
        "trainingTaskInputs": {"workerPoolSpecs": [{**pool, "containerSpec": container}]},
        **fields,
    }


def wait(service, created, *, timeout_seconds=60):
    deadline = time.monotonic() + timeout_seconds
    while (now := service.do("GET", f"/v1/{created['name']}"))["state"] not in FINAL_STATES:
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    return now


def test_a_script_is_trained_and_its_model_uploaded_and_served(service, sdk, folder, tmp_path):
    (folder / "staging").mkdir()
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    job = sdk.CustomTrainingJob(
        display_name="mine", script_path=str(script), container_uri="any", **SERVER
    )
    model = job.run(
        model_display_name="trained", args=["--units", "7"], environment_variables={"COLOUR": "red"}
    )
    [name] = [one["name"] for one in service.do("GET", "customJobs")["customJobs"]]
    log = service.root / "jobs" / name.rpartition("/")[2] / "workerpool0-0.log"
    assert "units 7 red" in log.read_text()
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
    ended = wait(service, created)
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
    ended = wait(service, service.do("POST", "trainingPipelines", body))
    assert ended["state"] == "PIPELINE_STATE_FAILED"
    assert reason in ended["error"]["message"]
    assert not service.do("GET", "models")["models"]


def test_a_cancelled_training_ends_its_job(service):
    created = service.do("POST", "trainingPipelines", request("import time; time.sleep(600)"))
    service.do("POST", f"/v1/{created['name']}:cancel", {})
    ended = wait(service, created)
    assert ended["state"] == "PIPELINE_STATE_CANCELLED"
    job = service.do("GET", f"/v1/{ended['trainingTaskMetadata']['backingCustomJob']}")
    assert job["state"] == "JOB_STATE_CANCELLED"


def test_a_killed_service_leaves_a_failed_training_with_its_reason(service, tmp_path):
    created = service.do("POST", "trainingPipelines", request("import time; time.sleep(600)"))
    service.kill()
    service.start()
    ended = wait(service, created)
    assert ended["state"] == "PIPELINE_STATE_FAILED"
    assert created["trainingTaskMetadata"]["backingCustomJob"] in ended["error"]["message"]


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
def test_what_cannot_be_trained_is_refused(service, change, problem):
    response = service.call("POST", "trainingPipelines", {**request(), **change})
    assert response.status_code in (400, 404)
    assert problem in response.json()["error"]["message"]
    assert not service.do("GET", "customJobs")["customJobs"]
