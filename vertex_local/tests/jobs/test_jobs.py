"""Custom jobs against the real service, with small scripts as replicas."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from vertex_local.api.routes import Call
from vertex_local.errors import ApiError
from vertex_local.jobs import resource as jobs
from vertex_local.machine import ports
from vertex_local.tests.support.jobs import job, pool, wait_for_end
from vertex_local.tests.support.waiting import wait_for_text, wait_until

pytestmark = pytest.mark.timeout(120)

SLEEP = "import time; print('ready'); time.sleep(100)"
IGNORE_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


@pytest.fixture
def service(forking_service):
    return forking_service


def create(service, *pools: dict[str, Any], **job_spec: Any) -> dict[str, Any]:
    return service.do("POST", "customJobs", job(*pools, **job_spec))


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


def test_a_job_succeeds_with_its_chief_with_vertex_environment_and_fields(service, tmp_path):
    code = "import os, json; print(json.dumps({**os.environ, 'cwd': os.getcwd()}))"
    output = tmp_path / "run" / "5"
    body = job(
        pool(code, env=[{"name": "COLOUR", "value": "red"}]),
        pool(SLEEP),
        pool(SLEEP),
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
    assert_ended(*replicas(service, created).values())

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


CRASH = "print('step 1'); raise SystemExit('shard 3 is truncated')"
FAILURES = {
    "crash": (
        job(pool(SLEEP), pool(CRASH)),
        {
            "code": 3,
            "message": "worker/0 exited with code 1. Last lines:\nstep 1\nshard 3 is truncated",
        },
    ),
    "timeout": (
        job(pool(SLEEP), scheduling={"timeout": "0.8s"}),
        {
            "code": 4,
            "message": "the job's timeout of 0.8 s passed; chief/0 was still running",
        },
    ),
    "missing command": (
        job(pool("", command=["no-such-trainer"])),
        {"code": 3, "message": "chief/0 could not start: command 'no-such-trainer'"},
    ),
}


def test_failed_jobs_say_why(service):
    """All at the same time."""
    created = {case: service.do("POST", "customJobs", FAILURES[case][0]) for case in FAILURES}
    for case, (_, error) in FAILURES.items():
        ended = wait_for_end(service, created[case])
        assert ended["state"] == "JOB_STATE_FAILED", case
        assert ended["error"]["code"] == error["code"], case
        assert ended["error"]["message"].startswith(error["message"]), case


def test_a_killed_worker_ends_a_job_without_retries(service):
    created = create(service, pool(SLEEP), pool(SLEEP, 2), scheduling={"disableRetries": True})
    pids = wait_until_ready(service, created, 3)
    os.kill(pids["worker/1"], signal.SIGKILL)
    ended = wait_for_end(service, created)
    assert ended["state"] == "JOB_STATE_FAILED"
    assert ended["error"]["message"] == (
        "worker/1 exited with code 137 (killed by SIGKILL). Last lines:\nready"
    )
    assert_ended(*pids.values())


def test_a_killed_worker_is_restarted_with_the_whole_job_if_so_asked(service):
    scheduling = {"restartJobOnWorkerRestart": True}
    created = create(service, pool(SLEEP), pool(SLEEP, 2), scheduling=scheduling)
    before = wait_until_ready(service, created, 3)
    os.kill(before["worker/1"], signal.SIGKILL)

    def are_new() -> bool:
        after = replicas(service, created)
        return len(after) == 3 and not set(after.values()) & set(before.values())

    wait_until(are_new, "three other replicas")
    service.do("POST", f"/v1/{created['name']}:cancel", {})
    assert wait_for_end(service, created)["state"] == "JOB_STATE_CANCELLED"


@pytest.mark.fast
def test_a_job_for_which_no_ports_are_free_fails_and_says_so(idle_service, monkeypatch):
    monkeypatch.setattr(ports, "_is_free", lambda port: False)
    call = Call(args={"project": "p", "location": "l"}, body=job(pool("")))
    ended = idle_service.store.get(jobs.create(idle_service, call)["name"])
    assert ended["state"] == "JOB_STATE_FAILED"
    assert "could not start: Fewer than 1 ports are free" in ended["error"]["message"]


def test_cancel_is_idempotent_and_ends_everything(service):
    created = create(service, pool(SLEEP), pool(SLEEP))
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
    created = create(service, pool(SLEEP))
    service.do("POST", f"/v1/{created['name']}:cancel")
    assert wait_for_end(service, created)["state"] == "JOB_STATE_CANCELLED"
    assert_ended(*replicas(service, created).values())


def test_cancel_of_a_stubborn_job_shows_cancelling(service):
    code = f"import signal; signal.signal(signal.SIGTERM, lambda *_: print('stays')); {SLEEP}"
    created = create(service, pool(code))
    pids = wait_until_ready(service, created, 1)
    service.do("POST", f"/v1/{created['name']}:cancel")
    wait_for_text(folder_of(service, created) / "workerpool0-0.log", "stays")
    assert service.do("GET", f"/v1/{created['name']}")["state"] == "JOB_STATE_CANCELLING"
    os.kill(pids["chief/0"], signal.SIGKILL)  # not to wait for the grace period of 10 s
    assert wait_for_end(service, created)["state"] == "JOB_STATE_CANCELLED"


def test_delete_needs_an_ended_job_and_keeps_the_output(service, tmp_path):
    output = tmp_path / "output"
    code = (
        "import os; folder = os.environ['AIP_MODEL_DIR']; os.makedirs(folder);"
        f" open(folder + 'm', 'w'); {SLEEP}"
    )
    created = create(service, pool(code), baseOutputDirectory={"outputUriPrefix": str(output)})
    wait_until_ready(service, created, 1)
    name = f"/v1/{created['name']}"

    refused = service.call("DELETE", name)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["status"] == "FAILED_PRECONDITION"
    assert "cancel it" in error["message"]

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
        labels = {"list": f"r{i % 2}"}
        body = {**job(pool("")), "displayName": "listed", "labels": labels}
        service.do("POST", "customJobs", body)

    def listed(**query: str) -> dict[str, Any]:
        return service.do("GET", "customJobs", params={"filter": 'display_name="listed"', **query})

    page = listed(pageSize="2")
    assert len(page["customJobs"]) == 2
    assert len(listed(pageToken=page["nextPageToken"])["customJobs"]) == 1
    assert len(listed(filter='labels.list="r0"')["customJobs"]) == 2


@pytest.mark.fast
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**job(pool("")), "colour": "red"}, "colour"),
        (job(pool("", 2)), "replicaCount is 2; it must be 1"),
        (
            job(pool(""), baseOutputDirectory={"outputUriPrefix": "/dev/null/x"}),
            'outputUriPrefix "/dev/null/x"',
        ),
    ],
    ids=["unknown-field", "two-chiefs", "unwritable"],
)
def test_bad_requests_are_refused_and_leave_nothing(idle_service, body, words):
    with pytest.raises(ApiError, match=words) as error:
        jobs.create(idle_service, Call(args={"project": "p", "location": "l"}, body=body))
    assert (error.value.code, error.value.status) == (400, "INVALID_ARGUMENT")
    assert idle_service.store.list_kind("customJobs") == []
    assert not list((idle_service.root / "jobs").glob("*"))


def test_counts_may_be_strings_or_floats_and_output_only_fields_are_ignored(service):
    """Jobs that are created at the same time, by as many threads."""
    counts = ["2", 2.0, "2.0", 1]
    output_only = {"state": "JOB_STATE_FAILED", "name": "projects/x", "error": {"code": 1}}
    created: list[tuple[Any, dict[str, Any]]] = []

    def submit(count: Any) -> None:
        body = job(pool("print('ready')"), pool("", count)) | output_only
        created.append((count, service.do("POST", "customJobs", body)))

    threads = [threading.Thread(target=submit, args=(count,)) for count in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({one["name"] for _, one in created}) == len(counts)
    for count, one in created:
        assert one["state"] == "JOB_STATE_PENDING"
        assert one["name"].startswith(service.parent)
        assert "error" not in one
        assert wait_for_end(service, one)["state"] == "JOB_STATE_SUCCEEDED"
        assert ("worker/1" in replicas(service, one)) == (count != 1)


def test_a_killed_or_stopped_service_leaves_no_replica_and_recovers(service):
    finished = create(service, pool("print('done')"))
    wait_for_end(service, finished)
    created = create(service, pool(SLEEP), pool(IGNORE_SIGTERM), pool(SLEEP))
    pids = wait_until_ready(service, created, 3)
    service.kill()
    service.start()
    ended = service.do("GET", f"/v1/{created['name']}")
    assert ended["state"] == "JOB_STATE_FAILED"
    assert ended["error"] == {"code": 10, "message": "interrupted: the service stopped"}
    assert not any(map(psutil.pid_exists, pids.values()))
    assert service.do("GET", f"/v1/{finished['name']}")["state"] == "JOB_STATE_SUCCEEDED"

    created = create(service, pool(SLEEP), pool(SLEEP))
    pids = wait_until_ready(service, created, 2)
    assert service.stop() == 0
    assert not any(map(psutil.pid_exists, pids.values()))
    service.start()
    assert service.do("GET", f"/v1/{created['name']}")["state"] == "JOB_STATE_CANCELLED"


def test_a_replica_has_its_cpu_and_memory_while_it_runs_and_after_its_end(service):
    busy = "import time; t = time.time() + 100\nwhile time.time() < t: pass"
    created = create(service, pool(busy), pool(SLEEP))
    path = f"/v1/{created['name']}/replicas"

    def measured() -> Any:
        replicas = service.do("GET", path)["replicas"]
        return replicas if replicas[0].get("cpuSeconds", 0.0) > 0.3 else None

    chief, worker = wait_until(measured, "some CPU")
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
