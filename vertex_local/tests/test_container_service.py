"""`vertex-local serve --containers`: jobs, deployed models and pipelines through the API."""

import json
import signal
from contextlib import suppress
from functools import partial

import psutil
import pytest
import yaml
from kfp import compiler, dsl

from vertex_local.tests.support.docker_command import docker
from vertex_local.tests.support.jobs import python_job, wait_for_end
from vertex_local.tests.support.service import SERVER_SCRIPT, deployment, run_cli, running_service
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

READY = "import time; print('ready'); time.sleep(60)"


@pytest.fixture
def contained(tmp_path, container_image, left_over, monkeypatch):
    """A service with --containers; no container may remain after the test."""
    monkeypatch.setenv("OF_THE_SERVICE", "1")
    mount = ("--mount", str(SERVER_SCRIPT.parent))
    with running_service(tmp_path / "vertex", "--containers", *mount) as running:
        yield running
    assert left_over(running.root) == []


@pytest.fixture
def job(container_image):
    return partial(python_job, image=container_image)


def wait_until_ready(service, created, count):
    folder = service.root / "jobs" / created["name"].rpartition("/")[2]

    def are_ready():
        return sum("ready" in log.read_text() for log in folder.glob("workerpool*.log")) >= count

    wait_until(are_ready, f"{count} replicas ready", timeout_seconds=60)


def test_a_job_runs_in_containers_and_writes_to_its_output_folder(contained, job):
    code = """
import json, os, pathlib
config = json.loads(os.environ["TF_CONFIG"])
assert config["cluster"] == {"chief": ["workerpool0-0:2222"], "worker": ["workerpool1-0:2222"]}
pathlib.Path(os.environ["AIP_MODEL_DIR"]).mkdir(exist_ok=True)
pathlib.Path(os.environ["AIP_MODEL_DIR"], "model.txt").write_text(os.uname().nodename)
"""
    output = contained.root / "out"
    body = job(code, READY, baseOutputDirectory={"outputUriPrefix": str(output)})
    created = contained.do("POST", "customJobs", body)

    ended = wait_for_end(contained, created)

    assert ended["state"] == "JOB_STATE_SUCCEEDED", ended
    assert (output / "model" / "model.txt").read_text() == "workerpool0-0"
    (chief, worker) = contained.do("GET", f"/v1/{created['name']}/replicas")["replicas"]
    assert chief["container"].endswith("-chief-0")
    assert worker["container"].endswith("-worker-0")


def test_a_request_that_cannot_run_is_refused_before_anything_starts(
    contained, job, container_image
):
    missing = contained.call("POST", "customJobs", job("", image="no-such:image"))
    unseen = {"baseOutputDirectory": {"outputUriPrefix": "/nowhere/out"}}
    outside = contained.call("POST", "customJobs", job("", **unseen))
    pipeline = pipeline_job(contained, image="no-such:image")
    unbuilt = contained.call("POST", "pipelineJobs", pipeline)
    pipeline = pipeline_job(contained, image=container_image)
    pipeline["runtimeConfig"]["gcsOutputDirectory"] = str(contained.root.parent / "elsewhere")
    lost = contained.call("POST", "pipelineJobs", pipeline)

    container = {"imageUri": "no-such:image", "command": ["serve"]}
    model = {"displayName": "m", "containerSpec": container}
    uploaded = contained.do("POST", "models:upload", {"model": model})
    endpoint = contained.do("POST", "endpoints", {"displayName": "e"})["name"]
    asked = deployment(uploaded["model"])
    undeployed = contained.call("POST", f"/v1/{endpoint}:deployModel", asked)

    for response, words in [
        (undeployed, '@1: containerSpec.imageUri "no-such:image" is not on this machine'),
        (missing, "jobSpec.workerPoolSpecs[0].containerSpec.imageUri"),
        (missing, '"no-such:image" is not on this machine'),
        (missing, "docker pull no-such:image"),
        (outside, "jobSpec.baseOutputDirectory.outputUriPrefix"),
        (outside, "start the service with --mount"),
        (unbuilt, "pipelineSpec.deploymentSpec.executors.exec-look.container.image"),
        (lost, "runtimeConfig.gcsOutputDirectory"),
    ]:
        assert response.status_code == 400
        assert words in response.json()["error"]["message"]
    assert not list((contained.root / "jobs").glob("*"))
    assert not list((contained.root / "pipelines").glob("*"))


def test_a_killed_service_leaves_no_container(contained, job, left_over):
    created = contained.do("POST", "customJobs", job(READY, READY))
    wait_until_ready(contained, created, 2)
    assert len(left_over(contained.root)) == 3

    contained.kill()
    contained.start()

    ended = contained.do("GET", f"/v1/{created['name']}")
    assert ended["error"] == {"code": 10, "message": "interrupted: the service stopped"}
    assert left_over(contained.root) == []


def test_a_new_service_removes_the_containers_of_a_killed_one(contained, job, left_over):
    created = contained.do("POST", "customJobs", job(READY, READY))
    wait_until_ready(contained, created, 2)
    service = psutil.Process(contained.process.pid)
    killed = [service, *service.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # so that no process sees the end of another
        for process in killed:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
    contained.process.wait(30)
    assert len(left_over(contained.root)) == 3, "nobody was left to remove them"

    contained.options = ()  # also without --containers
    contained.start()

    assert left_over(contained.root) == []
    assert not (contained.root / "containers").exists()


def test_a_deployed_model_is_a_container_with_a_port_on_loopback(
    contained, artifact_folder, container_image, left_over
):
    container = {
        "imageUri": container_image,
        "command": ["python", str(SERVER_SCRIPT)],
        "env": [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "ports": [{"containerPort": 9000}],
    }
    model = {
        "displayName": "tiny",
        "artifactUri": str(artifact_folder),
        "containerSpec": container,
    }
    uploaded = contained.do("POST", "models:upload", {"model": model})
    endpoint = contained.do("POST", "endpoints", {"displayName": "e"})["name"]
    asked = deployment(uploaded["model"], trafficSplit={"0": 100})
    deployed = contained.do("POST", f"/v1/{endpoint}:deployModel", asked)["deployedModel"]

    answer = contained.do("POST", f"/v1/{endpoint}:predict", {"instances": [21]})

    assert answer["predictions"][0]["double"] == 42
    assert "saved_model.pb" in answer["predictions"][0]["files"]
    (name,) = left_over(contained.root)
    ports = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Ports}}", name))
    (binding,) = ports["9000/tcp"]
    assert binding["HostIp"] == "127.0.0.1"
    listening = {
        connection.laddr.ip
        for connection in psutil.net_connections("tcp")
        if connection.laddr.port == int(binding["HostPort"]) and connection.status == "LISTEN"
    }
    assert listening == {"127.0.0.1"}

    contained.kill()
    contained.start()
    again = contained.do("POST", f"/v1/{endpoint}:predict", {"instances": [4]})
    assert again["predictions"][0]["double"] == 8
    (name,) = left_over(contained.root)
    docker("kill", name)
    restarted = contained.do("POST", f"/v1/{endpoint}:predict", {"instances": [21]})
    assert restarted["predictions"][0]["double"] == 42
    (name,) = left_over(contained.root)
    undeploy = {"deployedModelId": deployed["id"]}
    contained.do("POST", f"/v1/{endpoint}:undeployModel", undeploy)
    assert left_over(contained.root) == []


def pipeline_job(service, *, image):
    """Return a run of a container component and a Python component."""

    @dsl.container_component
    def write(text: str, note: dsl.OutputPath(str)):
        script = 'mkdir -p "$(dirname "$1")"; printf "%s in $HOSTNAME" "$0" > "$1"'
        return dsl.ContainerSpec(image=image, command=["sh", "-c", script], args=[text, note])

    @dsl.component(base_image=image, install_kfp_package=False)
    def look(note: str) -> str:
        import os
        import urllib.request

        # The environment variables of the run, and that it reaches the service.
        assert "OF_THE_SERVICE" not in os.environ
        host = os.environ["VERTEX_EMULATOR_HOST"]
        urllib.request.urlopen(f"http://{host}/v1/projects/p/locations/l/models", timeout=20)
        return f"{note}, with HOME {os.environ['HOME']}"

    @dsl.pipeline(name="contained")
    def contained(text: str = "hello") -> str:
        return look(note=write(text=text).outputs["note"]).output

    path = service.root / "pipeline.yaml"
    compiler.Compiler().compile(contained, str(path))
    config = {"gcsOutputDirectory": str(service.root / "runs")}
    return {"pipelineSpec": yaml.safe_load(path.read_text()), "runtimeConfig": config}


def test_the_steps_of_a_pipeline_are_containers(contained, container_image):
    created = contained.do("POST", "pipelineJobs", pipeline_job(contained, image=container_image))

    ended = wait_for_end(contained, created)

    assert ended["state"] == "PIPELINE_STATE_SUCCEEDED", ended
    outputs = list((contained.root / "runs").rglob("look/executor_output.json"))
    output = json.loads(outputs[0].read_text())["parameterValues"]["Output"]
    assert output.startswith("hello in ")
    assert output.endswith(", with HOME /tmp")


@pytest.mark.parametrize(
    ("docker", "words"),
    [
        ("", "`docker` is not on PATH; install it"),
        ("echo Cannot connect >&2; exit 1", "Cannot connect"),
    ],
    ids=["no docker", "no engine"],
)
def test_the_error_without_a_docker_engine_names_the_remedy(tmp_path, docker, words):
    if docker:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{docker}\n")
        (tmp_path / "docker").chmod(0o755)
    command = ["serve", "--root", str(tmp_path / "root"), "--containers"]

    code, output = run_cli(tmp_path / "log", *command, PATH=str(tmp_path))

    assert code == 2
    assert words in output
    assert len(output.splitlines()) == 1


def test_a_missing_folder_cannot_be_mounted(tmp_path, container_image):
    command = ["serve", "--root", str(tmp_path / "root"), "--containers", "--mount"]

    code, output = run_cli(tmp_path / "log", *command, f"{tmp_path}/none")

    assert code == 2
    assert f"--mount {tmp_path}/none is not a folder" in output
