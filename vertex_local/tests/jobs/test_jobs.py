"""Custom jobs against the real service, with small scripts as replicas."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from vertex_local.api.database.store import Store
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.jobs import resource as jobs
from vertex_local.machine import ports
from vertex_local.tests.support.service import CREDENTIALS
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

SLEEP = "import time; print('ready'); time.sleep(100)"
IGNORE_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
UNFINISHED = ("JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING")


def pool(code: str, count: int = 1, **container: Any) -> dict[str, Any]:
    container_spec = {"imageUri": "image", "command": ["python"], "args": ["-c", code]}
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": count,
        "containerSpec": {**container_spec, **container},
    }


def job(*pools: dict[str, Any], **job_spec: Any) -> dict[str, Any]:
    return {"displayName": "mnist", "jobSpec": {"workerPoolSpecs": list(pools), **job_spec}}


def wait_for_end(service, created: dict[str, Any], *, timeout_seconds: float = 30):
    def ended() -> Any:
        found = service.do("GET", f"/v1/{created['name']}")
        return found if found["state"] not in UNFINISHED else None

    return wait_until(ended, f"the end of {created['name']}", timeout_seconds=timeout_seconds)


def folder_of(service, created: dict[str, Any]) -> Path:
    return service.root / "jobs" / created["name"].rpartition("/")[2]


def replicas(service, created: dict[str, Any]) -> dict[str, int]:
    state = json.loads((folder_of(service, created) / "state.json").read_text())
    return {name: one["pid"] for name, one in state["replicas"].items() if one["pid"]}


def wait_until_ready(service, created: dict[str, Any], count: int) -> dict[str, int]:
    """Wait until every replica has printed `ready`; return their pids by name."""

    def are_ready() -> bool:
        logs = list(folder_of(service, created).glob("workerpool*.log"))
        return len(logs) == count and all("ready" in log.read_text() for log in logs)

    wait_until(are_ready, f"{count} replicas ready")
    return replicas(service, created)


def assert_ended(*pids: int) -> None:
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), f"the end of {pids}")


def error_of(response) -> dict[str, Any]:
    return response.json()["error"]


def test_a_job_succeeds_with_vertex_environment_and_fields(service, tmp_path):
    code = "import os, json; print(json.dumps({**os.environ, 'cwd': os.getcwd()}))"
    output = tmp_path / "run" / "5"
    body = job(
        pool(code, env=[{"name": "COLOUR", "value": "red"}]),
        baseOutputDirectory={"outputUriPrefix": str(output)},
    )
    created = service.do("POST", "customJobs", {**body, "labels": {"run": "r1"}})
    assert created["state"] == "JOB_STATE_PENDING"
    assert created["createTime"]
    assert created["jobSpec"]["workerPoolSpecs"][0]["replicaCount"] == "1"

    ended = wait_for_end(service, created)
    assert ended["state"] == "JOB_STATE_SUCCEEDED"
    assert ended["createTime"] <= ended["startTime"] <= ended["endTime"] == ended["updateTime"]
    assert ended["labels"] == {"run": "r1"}
    assert "error" not in ended

    folder = folder_of(service, created)
    env = json.loads((folder / "workerpool0-0.log").read_text())
    assert env["AIP_MODEL_DIR"] == f"{output}/model/"
    assert output.is_dir()
    assert env["CLOUD_ML_JOB_ID"] == folder.name
    assert (env["CLOUD_ML_PROJECT_ID"], env["CLOUD_ML_REGION"]) == ("demo", "us-central1")
    assert env["COLOUR"] == "red"
    assert env["cwd"] == str(folder)
    assert f"http://{env['VERTEX_EMULATOR_HOST']}" == service.url
    assert json.loads(env["TF_CONFIG"])["task"] == {"type": "chief", "index": 0}


def test_replicas_of_concurrent_jobs_have_different_addresses(service):
    code = f"import os; print(os.environ['TF_CONFIG'], flush=True); {SLEEP}"
    created = [service.do("POST", "customJobs", job(pool(code), pool(code, 2))) for _ in range(3)]
    addresses: list[str] = []
    for one in created:
        wait_until_ready(service, one, 3)
        log = (folder_of(service, one) / "workerpool1-1.log").read_text().split("\n")[0]
        cluster = json.loads(log)["cluster"]
        addresses += cluster["chief"] + cluster["worker"]
    assert len(set(addresses)) == 9
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_the_chief_decides_and_the_parameter_server_ends(service):
    created = service.do("POST", "customJobs", job(pool("print('done')"), pool(SLEEP), pool(SLEEP)))
    assert wait_for_end(service, created)["state"] == "JOB_STATE_SUCCEEDED"
    assert_ended(*replicas(service, created).values())


def test_the_error_of_a_crash_has_the_last_lines_of_the_replica(service):
    code = "print('step 1'); raise SystemExit('shard 3 is truncated')"
    created = service.do("POST", "customJobs", job(pool(SLEEP), pool(code)))
    ended = wait_for_end(service, created)
    assert ended["state"] == "JOB_STATE_FAILED"
    assert ended["error"]["code"] == 3
    assert ended["error"]["message"] == (
        "worker/0 exited with code 1. Last lines:\nstep 1\nshard 3 is truncated"
    )


def test_a_killed_worker_ends_a_job_without_retries(service):
    body = job(pool(SLEEP), pool(SLEEP, 2), scheduling={"disableRetries": True})
    created = service.do("POST", "customJobs", body)
    pids = wait_until_ready(service, created, 3)
    os.kill(pids["worker/1"], signal.SIGKILL)
    ended = wait_for_end(service, created)
    assert ended["state"] == "JOB_STATE_FAILED"
    assert ended["error"]["message"] == (
        "worker/1 exited with code 137 (killed by SIGKILL). Last lines:\nready"
    )
    assert_ended(*pids.values())


@pytest.mark.parametrize("whole_job", [False, True], ids=["worker", "job"])
def test_a_killed_worker_is_restarted_alone_or_with_the_whole_job(service, whole_job):
    scheduling = {"restartJobOnWorkerRestart": whole_job}
    body = job(pool(SLEEP), pool(SLEEP, 2), scheduling=scheduling)
    created = service.do("POST", "customJobs", body)
    before = wait_until_ready(service, created, 3)
    os.kill(before["worker/1"], signal.SIGKILL)

    def started_again() -> dict[str, int] | None:
        after = replicas(service, created)
        is_new = after.get("worker/1", 0) not in (0, before["worker/1"])
        return after if len(after) == 3 and is_new else None

    after = wait_until(started_again, "another worker/1")
    assert (after["chief/0"] == before["chief/0"]) is not whole_job
    service.do("POST", f"/v1/{created['name']}:cancel", {})
    assert wait_for_end(service, created)["state"] == "JOB_STATE_CANCELLED"


def test_the_error_names_a_command_that_does_not_exist(service):
    created = service.do("POST", "customJobs", job(pool("", command=["no-such-trainer"])))
    ended = wait_for_end(service, created)
    assert ended["state"] == "JOB_STATE_FAILED"
    assert "chief/0 could not start: command 'no-such-trainer'" in ended["error"]["message"]


def test_a_job_for_which_no_ports_are_free_fails_and_says_so(tmp_path, monkeypatch):
    store = Store(tmp_path / "vertex.db")
    service = Service(root=tmp_path, store=store, url="")
    monkeypatch.setattr(ports, "_is_free", lambda port: False)
    call = Call(args={"project": "p", "location": "l"}, body=job(pool("")))
    created = jobs.create(service, call)
    ended = store.get(created["name"])
    store.close()
    assert ended["state"] == "JOB_STATE_FAILED"
    assert "could not start: Fewer than 1 ports are free" in ended["error"]["message"]


def test_the_timeout_ends_the_job(service):
    body = job(pool(SLEEP), scheduling={"timeout": "1.5s"})
    created = service.do("POST", "customJobs", body)
    ended = wait_for_end(service, created)
    assert ended["state"] == "JOB_STATE_FAILED"
    assert ended["error"] == {
        "code": 4,
        "message": "the job's timeout of 1.5 s passed; chief/0 was still running",
    }


def test_cancel_is_idempotent_and_ends_everything(service):
    created = service.do("POST", "customJobs", job(pool(SLEEP), pool(SLEEP)))
    pids = wait_until_ready(service, created, 2)
    name = f"/v1/{created['name']}"
    assert service.do("POST", f"{name}:cancel", {}) == {}
    assert service.do("POST", f"{name}:cancel", {}) == {}
    ended = wait_for_end(service, created)
    assert ended["state"] == "JOB_STATE_CANCELLED"
    assert ended["error"]["code"] == 1
    assert_ended(*pids.values())
    assert service.do("POST", f"{name}:cancel") == {}
    assert service.do("GET", name) == ended


def test_a_job_cancelled_at_once_leaves_no_process(service):
    created = service.do("POST", "customJobs", job(pool(SLEEP)))
    service.do("POST", f"/v1/{created['name']}:cancel")
    assert wait_for_end(service, created)["state"] == "JOB_STATE_CANCELLED"
    assert_ended(*replicas(service, created).values())


def test_cancel_of_a_stubborn_job_shows_cancelling(service):
    created = service.do("POST", "customJobs", job(pool(IGNORE_SIGTERM)))
    pids = wait_until_ready(service, created, 1)
    service.do("POST", f"/v1/{created['name']}:cancel")
    time.sleep(0.5)
    assert service.do("GET", f"/v1/{created['name']}")["state"] == "JOB_STATE_CANCELLING"
    os.kill(pids["chief/0"], signal.SIGKILL)  # not to wait for the grace period of 10 s
    assert wait_for_end(service, created)["state"] == "JOB_STATE_CANCELLED"


def test_delete_needs_an_ended_job_and_keeps_the_output(service, tmp_path):
    output = tmp_path / "output"
    code = (
        "import os; folder = os.environ['AIP_MODEL_DIR']; os.makedirs(folder);"
        f" open(folder + 'm', 'w'); {SLEEP}"
    )
    body = job(pool(code), baseOutputDirectory={"outputUriPrefix": str(output)})
    created = service.do("POST", "customJobs", body)
    wait_until_ready(service, created, 1)
    name = f"/v1/{created['name']}"

    refused = service.call("DELETE", name)
    assert refused.status_code == 400
    assert error_of(refused)["status"] == "FAILED_PRECONDITION"
    assert "cancel it" in error_of(refused)["message"]

    service.do("POST", f"{name}:cancel")
    wait_for_end(service, created)
    operation = service.call("DELETE", name).json()
    assert operation["done"] is True
    assert service.call("GET", name).status_code == 404
    assert not folder_of(service, created).exists()
    assert (output / "model" / "m").exists()
    assert service.call("DELETE", name).status_code == 404


def test_list_filters_and_pages(service):
    for i in range(3):
        body = {**job(pool("")), "labels": {"run": f"r{i % 2}"}}
        service.do("POST", "customJobs", body)
    page = service.do("GET", "customJobs", params={"pageSize": 2})
    assert len(page["customJobs"]) == 2
    rest = service.do("GET", "customJobs", params={"pageToken": page["nextPageToken"]})
    assert len(rest["customJobs"]) == 1
    chosen = service.do("GET", "customJobs", params={"filter": 'labels.run="r0"'})
    assert len(chosen["customJobs"]) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**job(pool("")), "colour": "red"}, "colour"),
        (job(pool("", 2)), "replicaCount is 2; it must be 1"),
        (job(pool("", command=[])), "containerSpec.command"),
        (
            job(
                {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "replicaCount": 1,
                    "pythonPackageSpec": {
                        "executorImageUri": "i",
                        "packageUris": ["p"],
                        "pythonModule": "a",
                    },
                }
            ),
            "pythonPackageSpec",
        ),
        (
            job(pool(""), baseOutputDirectory={"outputUriPrefix": "gs://b"}),
            'outputUriPrefix "gs://b"',
        ),
        (
            job(pool(""), baseOutputDirectory={"outputUriPrefix": "/dev/null/x"}),
            'outputUriPrefix "/dev/null/x"',
        ),
    ],
    ids=["unknown-field", "two-chiefs", "no-command", "python-package", "gcs", "unwritable"],
)
def test_bad_requests_are_refused_and_leave_nothing(service, body, words):
    response = service.call("POST", "customJobs", body)
    assert response.status_code == 400
    assert error_of(response)["status"] == "INVALID_ARGUMENT"
    assert words in error_of(response)["message"]
    assert service.do("GET", "customJobs") == {"customJobs": []}
    assert not list((service.root / "jobs").glob("*"))


@pytest.mark.parametrize("count", ["2", 2.0, "2.0"], ids=["text", "float", "float-text"])
def test_counts_may_be_strings_or_floats(service, count):
    created = service.do("POST", "customJobs", job(pool("print('ready')"), pool("", count)))
    assert wait_for_end(service, created)["state"] == "JOB_STATE_SUCCEEDED"
    assert "worker/1" in replicas(service, created)


def test_output_only_fields_of_a_request_are_ignored(service):
    body = {
        **job(pool("")),
        "state": "JOB_STATE_FAILED",
        "name": "projects/x",
        "error": {"code": 1},
    }
    created = service.do("POST", "customJobs", body)
    assert created["state"] == "JOB_STATE_PENDING"
    assert created["name"].startswith(service.parent)
    assert "error" not in created


def test_a_killed_service_leaves_no_replica_and_recovers(service):
    finished = service.do("POST", "customJobs", job(pool("print('done')")))
    wait_for_end(service, finished)
    created = service.do("POST", "customJobs", job(pool(SLEEP), pool(IGNORE_SIGTERM), pool(SLEEP)))
    pids = wait_until_ready(service, created, 3)
    service.kill()
    service.start()
    ended = service.do("GET", f"/v1/{created['name']}")
    assert ended["state"] == "JOB_STATE_FAILED"
    assert ended["error"] == {"code": 10, "message": "interrupted: the service stopped"}
    assert not any(map(psutil.pid_exists, pids.values()))
    assert service.do("GET", f"/v1/{finished['name']}")["state"] == "JOB_STATE_SUCCEEDED"


def test_stopping_the_service_ends_running_jobs(service):
    created = service.do("POST", "customJobs", job(pool(SLEEP), pool(SLEEP)))
    pids = wait_until_ready(service, created, 2)
    assert service.stop() == 0
    assert not any(map(psutil.pid_exists, pids.values()))
    service.start()
    ended = service.do("GET", f"/v1/{created['name']}")
    assert ended["state"] == "JOB_STATE_CANCELLED"


def test_many_jobs_at_the_same_time(service):
    created: list[dict[str, Any]] = []

    def create() -> None:
        created.append(service.do("POST", "customJobs", job(pool("print(1)"))))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({one["name"] for one in created}) == 8
    for one in created:
        assert wait_for_end(service, one)["state"] == "JOB_STATE_SUCCEEDED"
    assert psutil.Process(service.process.pid).children(recursive=True) == []


def test_the_official_client_creates_reads_cancels_and_deletes(service):
    from google.cloud import aiplatform_v1

    client = aiplatform_v1.JobServiceClient(
        transport="rest",
        client_options={"api_endpoint": service.url},
        credentials=CREDENTIALS,
    )
    created = client.create_custom_job(
        parent=service.parent,
        custom_job={
            "display_name": "mnist",
            "job_spec": {
                "worker_pool_specs": [
                    {
                        "machine_spec": {"machine_type": "n1-standard-4"},
                        "replica_count": 1,
                        "container_spec": {
                            "image_uri": "image",
                            "command": ["python", "-c"],
                            "args": [SLEEP],
                        },
                    }
                ],
                "scheduling": {"timeout": {"seconds": 60}},
            },
        },
    )
    state = aiplatform_v1.JobState
    assert created.state == state.JOB_STATE_PENDING
    wait_until(
        lambda: client.get_custom_job(name=created.name).state == state.JOB_STATE_RUNNING, "RUNNING"
    )
    assert [one.name for one in client.list_custom_jobs(parent=service.parent)] == [created.name]
    client.cancel_custom_job(name=created.name)
    wait_until(
        lambda: client.get_custom_job(name=created.name).state == state.JOB_STATE_CANCELLED,
        "CANCELLED",
    )
    client.delete_custom_job(name=created.name).result(timeout=30)
    assert list(client.list_custom_jobs(parent=service.parent)) == []


def test_the_sdks_custom_job_runs(service, aiplatform, tmp_path):
    custom_job = aiplatform.CustomJob(
        display_name="mnist",
        worker_pool_specs=[pool_spec_of_sdk("print('trained')")],
        base_output_dir=str(tmp_path / "out"),
        staging_bucket="gs://not-used",
    )
    custom_job.submit(timeout=60)
    wait_until(lambda: custom_job.state.name == "JOB_STATE_SUCCEEDED", "SUCCEEDED")


def pool_spec_of_sdk(code: str) -> dict[str, Any]:
    container = {"image_uri": "image", "command": ["python", "-c", code]}
    return {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": container,
    }


def test_a_replica_has_its_cpu_and_memory_while_it_runs_and_after_its_end(service):
    busy = "import time; t = time.time() + 100\nwhile time.time() < t: pass"
    created = service.do("POST", "customJobs", job(pool(busy), pool(SLEEP)))
    path = f"/v1/{created['name']}/replicas"

    def measured() -> Any:
        replicas = service.do("GET", path)["replicas"]
        return replicas if replicas[0].get("cpuSeconds", 0.0) > 1 else None

    chief, worker = wait_until(measured, "a second of CPU")
    assert chief["memoryBytes"] > 2**20
    assert worker["cpuSeconds"] < chief["cpuSeconds"]
    service.do("POST", f"/v1/{created['name']}:cancel", {})
    wait_for_end(service, created)
    before = service.do("GET", path)["replicas"]
    assert before[0]["cpuSeconds"] >= chief["cpuSeconds"]
    assert before[0]["peakMemoryBytes"] > 2**20
    service.stop()
    service.start()
    assert service.do("GET", path)["replicas"] == before
