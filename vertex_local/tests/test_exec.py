"""`vertex-local exec`: programs of other people, unchanged; and clients of other protocols."""

import os
import socket
import subprocess
import sys

import pytest
from kfp import compiler, dsl

from vertex_local import redirect, testing
from vertex_local.tests.support.jobs import python_job, wait_for_end
from vertex_local.tests.support.pipeline_runs import Runs
from vertex_local.tests.support.platform import IS_PORTABLE
from vertex_local.tests.support.service import SERVER_SCRIPT, run_cli, running_service
from vertex_local.tests.support.waiting import wait_until

# Python of an environment with another version of Google's SDK (`.ci/run`); the default is ours.
PYTHON = os.environ.get("VERTEX_LOCAL_SDK_PYTHON", sys.executable)
PARENT = "projects/mine/locations/europe-west4"
SCRIPT = """
import sys, time
from google.api.httpbody_pb2 import HttpBody
from google.cloud import aiplatform, aiplatform_v1, storage

aiplatform.init(project="mine", location="europe-west4", staging_bucket="gs://staging")
storage.Client().create_bucket("staging").blob("m/saved_model.pb").upload_from_string("model")
container = {"image_uri": "any", "command": ["python", "-c", "print('trained')"]}
pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
job = aiplatform.CustomJob("job", worker_pool_specs=[{**pool, "container_spec": container}])
job.submit()
model = aiplatform.Model.upload(
    display_name="model",
    artifact_uri="gs://staging/m",
    serving_container_image_uri="any",
    serving_container_command=["python", sys.argv[1]],
)
endpoint = model.deploy(machine_type="n1-standard-2")
print("=", endpoint.predict([4]).predictions[0]["double"])
print("=", endpoint.raw_predict(b'{"instances": [5]}', {}).json()["predictions"][0]["double"])
options = {"api_endpoint": "europe-west4-aiplatform.googleapis.com"}
client = aiplatform_v1.EndpointServiceClient(client_options=options)
print("=", client.get_endpoint(name=endpoint.resource_name) == endpoint.gca_resource)
body = HttpBody(data=b'{"instances": [5]}')
client = aiplatform_v1.PredictionServiceClient(client_options=options)
request = aiplatform_v1.RawPredictRequest(endpoint=endpoint.resource_name, http_body=body)
print("=", b'"double": 10' in client.raw_predict(request).data)
dedicated = aiplatform.Endpoint.create(display_name="d", dedicated_endpoint_enabled=True)
dedicated.deploy(model, machine_type="n1-standard-2")
print("=", dedicated.predict([6], use_dedicated_endpoint=True).predictions[0]["double"])
run = aiplatform.PipelineJob("run", sys.argv[2], pipeline_root="gs://staging/runs")
run.submit()
while not (run.done() and job.done()):
    time.sleep(0.2)
print("=", run.state.name, job.state.name, run.resource_name)
"""


@dsl.component(base_image="python:3.11")
def note() -> str:
    return "done"


@dsl.pipeline(name="notes")
def notes():
    note()


# Beside the models of the project and location that the program runs in, it lists others.
MODELS = """
import os, sys
from google.cloud import aiplatform
print("=", "fractions" in sys.modules, os.environ["PYTHONPATH"].partition(os.pathsep)[0])
for place in ({}, {"project": "other", "location": "us-central1"}):
    aiplatform.init(**place)
    print("=", [model.display_name for model in aiplatform.Model.list()])
"""


@dsl.component(base_image="python:3.11")
def list_models(code: str):
    exec(code, {})


@dsl.pipeline(name="models")
def listing(code: str):
    list_models(code=code)


def execute(root, *words, timeout_seconds=150):
    command = [sys.executable, "-m", "vertex_local.cli", "exec", "--root", str(root), "--", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )


def test_a_program_with_googles_sdk_runs_unchanged(tmp_path):
    script, package = tmp_path / "script.py", tmp_path / "notes.yaml"
    script.write_text(SCRIPT)
    compiler.Compiler().compile(notes, str(package))
    with running_service(tmp_path / "vertex", "--buckets", str(tmp_path / "buckets")) as service:
        words = [PYTHON, str(script), str(SERVER_SCRIPT), str(package)]
        ended = execute(service.root, *words)
        assert ended.returncode == 0, ended.stderr
        lines = [line for line in ended.stdout.splitlines() if line.startswith("= ")]
    *values, states = lines
    assert values == ["= 8.0", "= 10", "= True", "= True", "= 12"]
    assert states.startswith("= PIPELINE_STATE_SUCCEEDED JOB_STATE_SUCCEEDED projects/mine/")


def test_googles_sdk_in_a_replica_and_in_a_forked_step_asks_the_service(tmp_path):
    job = python_job(MODELS)
    [pool] = job["jobSpec"]["workerPoolSpecs"]
    pool["containerSpec"]["env"] = [{"name": "PYTHONPATH", "value": "/mine"}]
    preload = ["--preload", "fractions,kfp.dsl.executor_main", "--service-packages"]
    # A new interpreter: forks of the tests' process have not imported sitecustomize.
    with testing.running(*preload, root=tmp_path / "vertex") as service:
        for parent, name in [("projects/other/locations/us-central1", "far"), (PARENT, "near")]:
            service.parent = parent
            model = {"displayName": name, "containerSpec": {"imageUri": "any"}}
            service.do("POST", "models:upload", {"model": model})
        runs, job = Runs(service, tmp_path), service.do("POST", "customJobs", job)
        run = runs.run(listing, code=MODELS)
        assert run["state"] == "PIPELINE_STATE_SUCCEEDED", runs.log(run)
        wait_for_end(service, job)
        logs = [
            next((service.root / folder).rglob(name)).read_text()
            for folder, name in [("jobs", "workerpool0-0.log"), ("pipelines", "list-models.log")]
        ]
    models = ["= ['near']", "= ['far']"]
    lines = [[line for line in log.splitlines() if line.startswith("= ")] for log in logs]
    is_forked = not IS_PORTABLE  # else each process is a new interpreter
    assert lines == [["= False /mine", *models], [f"= {is_forked} {redirect.FOLDER}", *models]]


def test_without_a_service_or_a_program_the_error_says_so(service, tmp_path):
    for root, program, words in (
        (tmp_path / "nothing", "true", "vertex-local serve --root"),
        (service.root, "no-such-program", "no-such-program cannot be run"),
    ):
        code, output = run_cli(tmp_path / program, "exec", "--root", str(root), "--", program)
        assert (code, words in output) == (2, True)


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_a_client_of_another_protocol_is_not_left_waiting(own_service, data):
    address = ("127.0.0.1", int(own_service.host.rpartition(":")[2]))
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(data)
        assert client.recv(100) == b""
    wait_until(lambda: 'api_transport="rest"' in own_service.log(), "the hint in the log")
