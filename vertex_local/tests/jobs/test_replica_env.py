"""Worker pools become replicas with Vertex AI's own environment."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vertex_local.errors import ApiError
from vertex_local.jobs.record import DEFAULT_TIMEOUT_SECONDS, plan_job
from vertex_local.jobs.replica_env import process_specs
from vertex_local.tests.support.jobs import job

pytestmark = pytest.mark.fast

FOLDER = Path("/root/jobs/7")
PORTS = [2001, 2002, 2003, 2004, 2005]
COMMAND = ["python", "-m", "trainer.task"]


def pool(count: Any = 1, **container: Any) -> dict[str, Any]:
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": str(count),
        "containerSpec": {"imageUri": "image", "command": COMMAND, **container},
    }


def specs(*pools: dict[str, Any], **job_spec: Any):
    plan = plan_job(job(*pools, **job_spec))
    return process_specs(plan, folder=FOLDER, ports=PORTS, common_env={"CLOUD_ML_JOB_ID": "7"})


def test_a_cluster_of_every_role():
    chief, *rest = specs(pool(), pool(2), pool(), pool())
    names = [spec.name for spec in (chief, *rest)]
    assert names == ["chief/0", "worker/0", "worker/1", "ps/0", "evaluator/0"]
    assert [spec.log_path.name for spec in (chief, *rest)] == [
        "workerpool0-0.log",
        "workerpool1-0.log",
        "workerpool1-1.log",
        "workerpool2-0.log",
        "workerpool3-0.log",
    ]
    assert chief.is_primary
    assert [spec.name for spec in rest if spec.is_primary] == []
    assert [spec.name for spec in rest if spec.is_service] == ["ps/0", "evaluator/0"]
    assert {spec.cwd for spec in rest} == {str(FOLDER)}
    configs = [json.loads(spec.env["TF_CONFIG"]) for spec in (chief, *rest)]
    assert [config["cluster"] for config in configs] == 5 * [
        {
            "chief": ["127.0.0.1:2001"],
            "worker": ["127.0.0.1:2002", "127.0.0.1:2003"],
            "ps": ["127.0.0.1:2004"],
        }
    ], "the evaluator is not in it"
    tasks = [f"{config['task']['type']}/{config['task']['index']}" for config in configs]
    assert tasks == names


def test_cluster_spec_names_every_pool():
    last = specs(pool(), pool(), {}, pool())[-1]
    cluster_spec = json.loads(last.env["CLUSTER_SPEC"])
    assert cluster_spec["cluster"] == {
        "workerpool0": ["127.0.0.1:2001"],
        "workerpool1": ["127.0.0.1:2002"],
        "workerpool3": ["127.0.0.1:2003"],
    }
    assert cluster_spec["task"] == {"type": "workerpool3", "index": 0}
    assert cluster_spec["environment"] == "cloud"


def test_one_replica_has_a_tf_config_too():
    (chief,) = specs(pool())
    assert json.loads(chief.env["TF_CONFIG"]) == {
        "cluster": {"chief": ["127.0.0.1:2001"]},
        "environment": "cloud",
        "task": {"type": "chief", "index": 0},
    }


@pytest.mark.parametrize("empty", [{}, pool(0)], ids=["empty", "no-replicas"])
def test_empty_pools_are_skipped(empty):
    assert [spec.name for spec in specs(pool(), empty, pool())] == ["chief/0", "ps/0"]


@pytest.mark.parametrize("prefix", ["/runs/5", "/runs/5/", "file:///runs/5", "gs://runs/5"])
def test_output_folders_are_below_the_prefix(prefix, monkeypatch):
    monkeypatch.setenv("VERTEX_LOCAL_BUCKETS", "/buckets")
    (chief,) = specs(pool(), baseOutputDirectory={"outputUriPrefix": prefix})
    root = prefix.removeprefix("file://").rstrip("/")
    assert chief.env["AIP_MODEL_DIR"] == f"{root}/model/"
    assert chief.env["AIP_CHECKPOINT_DIR"] == f"{root}/checkpoints/"
    assert chief.env["AIP_TENSORBOARD_LOG_DIR"] == f"{root}/logs/"


def test_without_a_prefix_no_output_folder_is_named():
    (chief,) = specs(pool())
    assert not [name for name in chief.env if name.startswith("AIP_")]


def test_arguments_and_environment_come_from_the_container():
    env = [{"name": "COLOUR", "value": "red"}, {"name": "EMPTY"}]
    (chief,) = specs(pool(args=["--epochs", "3"], env=env))
    assert chief.command == [*COMMAND, "--epochs", "3"]
    assert (chief.env["COLOUR"], chief.env["EMPTY"]) == ("red", "")
    assert chief.env["CLOUD_ML_JOB_ID"] == "7"


@pytest.mark.parametrize(
    ("timeout", "seconds"), [("7200s", 7200), ("1.500s", 1.5), ("", DEFAULT_TIMEOUT_SECONDS)]
)
def test_timeout(timeout, seconds):
    scheduling = {"timeout": timeout} if timeout else {}
    assert plan_job(job(pool(), scheduling=scheduling)).timeout_seconds == seconds


PACKAGE = {"executorImageUri": "i", "packageUris": ["gs://b/p.tgz"], "pythonModule": "trainer.task"}
PYTHON_POOL = {"replicaCount": "1", "pythonPackageSpec": PACKAGE}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (job(), r"workerPoolSpecs\[0\].*chief"),
        (job({}, pool()), r"workerPoolSpecs\[0\].*chief"),
        (job(pool(2)), r"workerPoolSpecs\[0\].replicaCount.* 2;.* 1"),
        (job(pool(0)), r"workerPoolSpecs\[0\].replicaCount.* 0;.* 1"),
        (job(pool(), pool(command=[])), r"workerPoolSpecs\[1\].containerSpec.command"),
        (job(pool(command=[""])), r"workerPoolSpecs\[0\].containerSpec.command"),
        (
            job(PYTHON_POOL),
            r'packageUris "gs://b/p.tgz" is not on this machine.*--buckets',
        ),
        (
            job(pool(), baseOutputDirectory={"outputUriPrefix": "gs://b/p"}),
            'outputUriPrefix "gs://b/p" is not on this machine.*--buckets',
        ),
        (
            job(pool(), baseOutputDirectory={"outputUriPrefix": "runs/5"}),
            'outputUriPrefix "runs/5".*absolute path',
        ),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_invalid_jobs_are_refused_and_the_error_names_the_field(body, words):
    with pytest.raises(ApiError, match=words) as caught:
        plan_job(body)
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")


def test_accelerators_are_ignored_with_a_warning(caplog):
    machine = {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 2,
    }

    plan_job(job({**pool(), "machineSpec": machine}, pool()))

    (message,) = caplog.messages
    assert re.search(r"workerPoolSpecs\[0\].machineSpec.* 2 NVIDIA_TESLA_T4", message)
