"""The `docker` commands of containers, without an engine."""

import json
from pathlib import Path

import pytest

from vertex_local.endpoints.serving_contract import serving_spec
from vertex_local.errors import ApiError
from vertex_local.jobs.record import plan_job
from vertex_local.jobs.replica_env import contained_specs
from vertex_local.machine import docker as containers
from vertex_local.machine.docker import Container, client_environment, name_of, run_command
from vertex_local.machine.docker_engine import Engine
from vertex_local.pipelines import record as pipeline_record

pytestmark = pytest.mark.fast

GROUP = Path("/state/jobs/7")
HASH = containers.network_of(GROUP).removeprefix("vertex-local-")
LABELS = ["--label", "vertex-local.root=/state", "--label", "vertex-local.group=/state/jobs/7"]
DEFAULTS = [
    *["--env", "HOME=/tmp", "--env", "TMPDIR", "--env", "PYTHONUNBUFFERED"],
    *["--env", "TINI_KILL_PROCESS_GROUP"],
]
ENGINE = Engine(root="/state", mounts=("/state", "/data"))


def command_of(container, *, env=None, **options):
    options = {"command": ["python", "-m", "task", "--x"], "cwd": None, **options}
    return run_command(
        container, name="it", group=GROUP, env=env or {}, user="1000:1000", **options
    )


def test_a_replica_on_the_network_of_its_group():
    container = Container(
        image="repo/image:tag",
        root="/state",
        mounts=("/state", "/data"),
        network="private",
        host_name="workerpool1-0",
    )

    assert command_of(container, env={"TF_CONFIG": "{}"}, cwd="/state/jobs/7") == [
        *["docker", "run", "--pull", "never", "--rm", "--init", "--name", "it"],
        *LABELS,
        *["--user", "1000:1000"],
        *["--network", f"vertex-local-{HASH}", "--network-alias", "workerpool1-0"],
        *["--hostname", "workerpool1-0"],
        *["--dns-option", "timeout:1", "--dns-option", "attempts:1"],
        *["--mount", "type=bind,source=/state,target=/state"],
        *["--mount", "type=bind,source=/data,target=/data"],
        *DEFAULTS,
        *["--env", "TF_CONFIG"],
        *["--workdir", "/state/jobs/7"],
        *["--entrypoint", "python", "--", "repo/image:tag", "-m", "task", "--x"],
    ]


def test_a_step_on_the_hosts_network():
    container = Container(image="image", root="/state", network="host")

    assert command_of(container, command=["sh"]) == [
        *["docker", "run", "--pull", "never", "--rm", "--init", "--name", "it"],
        *LABELS,
        *["--user", "1000:1000", "--network", "host"],
        *DEFAULTS,
        *["--entrypoint", "sh", "--", "image"],
    ]


def test_a_prediction_server_is_published_on_the_loopback_address_only():
    command = command_of(Container(image="image", root="/state", published=(8080, 23456)))

    assert command[command.index("--publish") + 1] == "127.0.0.1:23456:8080"
    assert command.count("--publish") == 1
    assert command[command.index("--network") + 1] == "bridge"


def test_values_are_passed_in_the_environment_and_not_on_the_command_line(monkeypatch):
    monkeypatch.setenv("OF_THE_SERVICE", "1")
    env = {"TOKEN": "secret", "EMPTY": "", "HTTPS_PROXY": "http://p", "HOME": "/home/me"}
    env |= {"DOCKER_HOST": "tcp://x", "PATH": "/bin", "LD_PRELOAD": "x.so", "GODEBUG": "1"}

    words = " ".join(command_of(Container(image="image", root="/state"), env=env))
    given = client_environment(env)

    assert "secret" not in words
    assert "--env TOKEN " in words
    assert "OF_THE_SERVICE" not in words
    assert given["TOKEN"] == "secret"
    assert given["EMPTY"] == ""
    assert given["OF_THE_SERVICE"] == "1"
    for name in ("DOCKER_HOST", "LD_PRELOAD", "GODEBUG", "HTTPS_PROXY", "PATH", "HOME"):
        assert f"--env {name}={env[name]}" in words
        assert given.get(name) != env[name], "`docker` itself would read it"


def test_container_names_are_valid_and_differ_between_starts_and_groups():
    names = [
        name_of(GROUP, "worker/0"),
        name_of(GROUP, "worker/0", num_restarts=1),
        name_of(GROUP, "the step"),
        name_of(Path("/state/jobs/8"), "worker/0"),
    ]

    assert names[:3] == [
        f"vertex-local-{HASH}-worker-0",
        f"vertex-local-{HASH}-worker-0-r1",
        f"vertex-local-{HASH}-the-step",
    ]
    assert len(set(names)) == 4


def test_the_network_is_internal(monkeypatch):
    sent: list[str] = []
    monkeypatch.setattr(containers, "docker", sent.extend)
    containers.create_network("/state", GROUP)
    assert sent == [
        *["docker", "network", "create", "--internal"],
        *LABELS,
        f"vertex-local-{HASH}",
    ]


@pytest.mark.parametrize(
    ("exit_code", "number"), [(0, 0), (1, 0), (125, 0), (137, 9), (143, 15), (255, 0)]
)
def test_signals_are_read_from_exit_codes(exit_code, number):
    assert containers.killing_signal(exit_code) == number


def test_the_replicas_of_a_job_are_hosts():
    pools = [
        {"replicaCount": str(count), "containerSpec": {"imageUri": image, "command": ["run"]}}
        for count, image in ((1, "a"), (2, "b"), (1, "c"))
    ]
    plan = plan_job({"displayName": "job", "jobSpec": {"workerPoolSpecs": pools}})

    specs = contained_specs(plan, folder=GROUP, engine=ENGINE, common_env={"ID": "7"})

    assert [spec.container.image for spec in specs] == ["a", "b", "b", "c"]
    hosts = ["workerpool0-0", "workerpool1-0", "workerpool1-1", "workerpool2-0"]
    assert [spec.container.host_name for spec in specs] == hosts
    assert {spec.container.network for spec in specs} == {"private"}
    assert {spec.cwd for spec in specs} == {None}, "the image's"
    assert json.loads(specs[2].env["TF_CONFIG"]) == {
        "cluster": {
            "chief": ["workerpool0-0:2222"],
            "worker": ["workerpool1-0:2222", "workerpool1-1:2222"],
            "ps": ["workerpool2-0:2222"],
        },
        "environment": "cloud",
        "task": {"type": "worker", "index": 1},
    }
    cluster = json.loads(specs[0].env["CLUSTER_SPEC"])["cluster"]
    assert cluster["workerpool1"] == ["workerpool1-0:2222", "workerpool1-1:2222"]


@pytest.mark.parametrize(
    ("ports", "inside"), [([], 8080), ([{"containerPort": 9000}], 9000)], ids=["default", "own"]
)
def test_a_prediction_server_listens_inside_on_the_models_port(monkeypatch, ports, inside):
    monkeypatch.setattr(Engine, "check_image", lambda *_, **__: None)
    container = {"imageUri": "image", "command": ["serve", "$(AIP_HTTP_PORT)"], "ports": ports}
    model = {"name": "m", "versionId": "1", "containerSpec": container}

    spec = serving_spec(model, endpoint_id="1", deployed_id="2", engine=ENGINE)
    process = spec.process_spec(port=20001, log_path=Path("/state/log"))

    assert process.container.published == (inside, 20001)
    assert process.env["AIP_HTTP_HOST"] == "0.0.0.0"
    assert process.command == ["serve", str(inside)]


def test_folders_that_are_not_mounted_are_refused():
    ENGINE.check_folder("/data/runs", field="root")
    ENGINE.check_folder("/state", field="root")
    for folder in ("/database", "/data/../etc", "/"):
        with pytest.raises(ApiError, match="mount") as error:
            ENGINE.check_folder(folder, field="jobSpec.x")
        assert "jobSpec.x" in str(error.value)
        assert "/state, /data" in str(error.value)


@pytest.mark.parametrize("image", ["", "-v/:/host", "--privileged", "a b", "a\nb"])
def test_invalid_image_names_are_not_passed_to_docker(image):
    with pytest.raises(ApiError, match=r"(?s)imageUri .*name"):
        ENGINE.check_image(image, field="containerSpec.imageUri")


def test_the_engine_can_be_passed_to_the_process_of_a_pipeline():
    assert Engine.from_json(ENGINE.to_json()) == ENGINE


def test_the_images_of_a_pipeline_are_those_of_its_own_steps():
    launcher = "google_cloud_pipeline_components.container.v1.custom_job.launcher"
    executors = {
        "exec-train": {"container": {"image": "gcpc", "command": ["python3", "-m", launcher]}},
        "exec-plan": {"container": {"image": "ours", "command": ["sh"]}},
        "exec-evaluate": {"container": {"image": "ours", "command": ["sh"]}},
        "exec-import": {"importer": {}},
    }

    assert pipeline_record.images({"deploymentSpec": {"executors": executors}}) == {
        "ours": "pipelineSpec.deploymentSpec.executors.exec-evaluate.container.image"
    }
