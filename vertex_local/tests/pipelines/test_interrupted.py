"""Runs whose runner or service ends early: exit tasks, jobs, final states."""

import fcntl
import time
from collections import Counter

import pytest
from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel
from google_cloud_pipeline_components.v1.endpoint import EndpointCreateOp, ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl

from vertex_local.machine.clock import now
from vertex_local.pipelines import journal
from vertex_local.tests.support.kills import kill_all, kill_runner
from vertex_local.tests.support.pipeline_runs import Runs, task_detail, task_states
from vertex_local.tests.support.pipeline_steps import (
    close_down,
    hold,
    job_hangs,
    mark,
    notes,
    one_hangs,
)
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import (
    PROJECT_AND_LOCATION,
    SERVER_SCRIPT,
)
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("temp_folder")
INTERRUPTED = "interrupted: the service stopped"


@dsl.pipeline(name="ends-well")
def ends_well(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        mark(folder=folder, text="first").set_caching_options(False)


UNHEALTHY = {
    "imageUri": "any",
    "command": ["python", str(SERVER_SCRIPT), "unhealthy"],
    "deploymentTimeout": "300s",
}


@dsl.pipeline(name="deploys")
def deploys(folder: str, model: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        imported = dsl.importer(
            artifact_uri=model,
            artifact_class=UnmanagedContainerModel,
            metadata={"containerSpec": UNHEALTHY},
        )
        uploaded = ModelUploadOp(
            display_name="tiny",
            unmanaged_container_model=imported.output,
            **PROJECT_AND_LOCATION,
        ).set_caching_options(False)
        endpoint = EndpointCreateOp(
            display_name="tiny", **PROJECT_AND_LOCATION
        ).set_caching_options(False)
        ModelDeployOp(
            model=uploaded.outputs["model"],
            endpoint=endpoint.outputs["endpoint"],
            traffic_split={"0": "100"},
            dedicated_resources_machine_type="n1-standard-4",
            dedicated_resources_min_replica_count=1,
        ).set_caching_options(False)


@dsl.pipeline(name="every-kind")
def every_kind(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        first = mark(folder=folder, text="go").set_caching_options(False)
        with dsl.If(first.output == "go", name="goes"):
            mark(folder=folder, text="then").set_caching_options(False)
        with dsl.If(first.output == "stop", name="stops"):
            mark(folder=folder, text="never").set_caching_options(False)
        with dsl.ParallelFor(["x", "y"]) as letter:
            mark(folder=folder, text=letter).set_caching_options(False).after(first)


@pytest.fixture
def cold_runs(own_service, tmp_path):
    """Runs on a service that starts a new interpreter for each process."""
    return Runs(own_service, tmp_path)


@pytest.fixture
def runs(forking_service, tmp_path):
    return Runs(forking_service, tmp_path)


def start(runs: Runs, pipeline, **parameters) -> dict:
    return runs.submit(pipeline, parameterValues={"folder": str(runs.folder), **parameters})


def await_notes(runs: Runs, count: int, name: str = "notes") -> None:
    wait_until(
        lambda: len(notes(runs, name)) >= count, f"note {count} of {name}", timeout_seconds=40
    )


@pytest.mark.timeout(120)
def test_after_a_kill_of_all_processes_the_next_service_runs_the_exit_task(runs):
    job = start(runs, one_hangs)
    pids = runs.pids()
    kill_all(runs.service)
    killed_at = now()
    assert not any(is_running(pid) for pid in pids)
    runs.service.start()
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert job["error"] == {"code": 10, "message": INTERRUPTED}
    assert task_detail(job, "hang")["error"] == {"code": 9, "message": INTERRUPTED}
    assert task_detail(job, "hang")["startTime"] <= task_detail(job, "hang")["endTime"] <= killed_at
    seen = {"state": "FAILED", "error": INTERRUPTED, "seen": "PIPELINE_STATE_RUNNING"}
    assert notes(runs) == [seen]
    assert (runs.folder / "marks").read_text() == "first\n", "what had succeeded is not repeated"


@pytest.mark.timeout(180)
def test_a_service_for_its_users_stays_until_the_exit_task_of_an_interrupted_run_ends(runs):
    service = runs.service
    options = service.options
    job = start(runs, one_hangs)
    runs.pids()
    held = hold(runs)
    service.kill()
    service.options = [*options, "--while-used"]
    with (service.root / "users").open("a") as user:
        fcntl.flock(user, fcntl.LOCK_SH)
        service.start()
        await_notes(runs, 1)
    assert runs.get(job)["state"] == "PIPELINE_STATE_RUNNING", "it continues without a user"
    held.unlink()
    assert service.process.wait(60) == 0, "it stops by itself"
    service.options = options
    service.start()
    assert runs.get(job)["state"] == "PIPELINE_STATE_FAILED"
    assert len(notes(runs)) == 1


@pytest.mark.timeout(180)
def test_a_stopped_service_ends_its_runs_and_the_next_one_the_exit_task_that_outlasts_it(runs):
    other = Runs(runs.service, runs.folder / "other")
    other.folder.mkdir()
    ended, job = start(other, one_hangs), start(runs, one_hangs)
    pids = [*other.pids(), *runs.pids()]
    held = hold(runs)
    assert runs.service.stop() == 0
    assert not any(is_running(pid) for pid in pids)
    assert len(notes(runs)) == 1
    held.unlink()
    runs.service.start()
    assert runs.get(ended)["state"] == "PIPELINE_STATE_CANCELLED"
    assert [one["state"] for one in notes(other)] == ["CANCELLED"]
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_CANCELLED"
    assert [one["state"] for one in notes(runs)] == ["CANCELLED", "CANCELLED"]
    attempts = [
        d["state"] for d in job["jobDetail"]["taskDetails"] if d["taskName"] == "close-down"
    ]
    assert attempts == ["CANCELLED", "SUCCEEDED"]


def test_an_interrupted_exit_task_runs_again_and_the_run_succeeds(runs):
    held = hold(runs)
    job = start(runs, ends_well)
    await_notes(runs, 1)
    kill_runner(runs, job)
    await_notes(runs, 2)
    assert runs.get(job)["state"] == "PIPELINE_STATE_RUNNING"
    held.unlink()
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED"
    assert "error" not in job
    assert [(one["state"], one["error"]) for one in notes(runs)] == 2 * [("SUCCEEDED", None)]
    names = [d["taskUniqueName"] for d in job["jobDetail"]["taskDetails"]]
    assert names == ["mark", "close-down", "close-down-run-2"]


def test_cancelling_after_the_last_task_cancels_the_run_but_not_its_exit_task(runs):
    held = hold(runs)
    job = start(runs, ends_well)
    await_notes(runs, 1)
    runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
    kill_runner(runs, job)
    await_notes(runs, 2)
    held.unlink()
    assert runs.wait(job)["state"] == "PIPELINE_STATE_CANCELLED"
    assert notes(runs)[1]["state"] == "SUCCEEDED"


@pytest.mark.timeout(120)
def test_after_three_killed_runners_the_error_says_that_exit_tasks_did_not_run(runs):
    hold(runs)
    job = start(runs, one_hangs)
    runs.pids()
    kill_runner(runs, job)
    for attempt in range(1, 4):
        await_notes(runs, attempt)
        kill_runner(runs, job)
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert "3 attempts" in job["error"]["message"]
    assert Counter(d["state"] for d in job["jobDetail"]["taskDetails"]) == {
        "SUCCEEDED": 1,
        "FAILED": 4,
    }
    assert len(notes(runs)) == 3


def test_a_cancelled_run_whose_runner_is_killed_runs_its_exit_task_as_cancelled(runs):
    held = hold(runs)
    job = start(runs, one_hangs)
    pids = runs.pids()
    runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
    await_notes(runs, 1)
    kill_runner(runs, job)
    await_notes(runs, 2)
    assert runs.get(job)["state"] == "PIPELINE_STATE_CANCELLING"
    held.unlink()
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_CANCELLED"
    assert job["error"]["message"] == "The pipeline was cancelled."
    assert [one["state"] for one in notes(runs)] == ["CANCELLED", "CANCELLED"]
    assert task_states(job) == {
        "mark": "SUCCEEDED",
        "hang": "CANCELLED",
        "echo": "NOT_TRIGGERED",
        "close-down": "SUCCEEDED",
    }
    assert not any(is_running(pid) for pid in pids)


def test_a_run_that_is_cancelled_before_any_task_runs_nothing(runs):
    job = start(runs, one_hangs)
    runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_CANCELLED"
    begun = [d for d in job.get("jobDetail", {}).get("taskDetails", []) if "startTime" in d]
    assert len(notes(runs)) == len([d for d in begun if d["taskName"] == "close-down"])
    assert {d["taskName"] for d in begun} <= {"mark", "close-down"}


def test_an_interrupted_run_without_started_tasks_runs_no_exit_task(cold_runs):
    job = start(cold_runs, one_hangs)
    cold_runs.service.kill()  # while the runner imports KFP
    assert "task_started" not in [one["event"] for one in journal.read(cold_runs.files(job))]
    cold_runs.service.start()
    job = cold_runs.get(job)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert job["error"]["message"] == INTERRUPTED
    assert notes(cold_runs) == []


@pytest.mark.timeout(120)
def test_the_custom_job_of_a_killed_runner_is_cancelled(runs):
    job = start(runs, job_hangs)
    [pid] = runs.pids()
    other = {"displayName": "other", "jobSpec": runs.service.do("GET", "customJobs")}
    other["jobSpec"] = other["jobSpec"]["customJobs"][-1]["jobSpec"]
    other_name = runs.service.do("POST", "customJobs", other)["name"]
    kill_runner(runs, job)
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert not is_running(pid)
    found = runs.service.do("GET", "customJobs")["customJobs"]
    by_name = {one["name"]: one["state"] for one in found}
    assert by_name.pop(other_name) in ("JOB_STATE_PENDING", "JOB_STATE_RUNNING")
    assert set(by_name.values()) == {"JOB_STATE_CANCELLED"}
    assert runs.note()["state"] == "FAILED"
    for error in (job["error"], task_detail(job, "custom-training-job")["error"]):
        assert "SIGKILL" in error["message"]
    assert "SIGKILL" in runs.note()["error"]
    runs.service.do("POST", f"/v1/{other_name}:cancel", {})


@pytest.mark.timeout(120)
def test_the_deployment_that_a_killed_runner_waits_for_is_cancelled(runs, artifact_folder):
    job = start(runs, deploys, model=str(artifact_folder))

    def operation() -> dict:
        events = journal.read(runs.files(job))
        names = [one["resource"] for one in events if one["event"] == "task_created"]
        return runs.get({"name": names[2]}) if len(names) > 2 else {}

    wait_until(operation, "the deployment to begin", timeout_seconds=40)
    assert not operation()["done"]
    kill_runner(runs, job)
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert operation()["error"]["code"] == 1
    [endpoint] = runs.service.do("GET", "endpoints")["endpoints"]
    assert "deployedModels" not in endpoint
    assert len(notes(runs)) == 1


def check_end(runs: Runs, job: dict) -> None:
    """Check the end of a run of `every_kind` that was interrupted at any event."""
    tasks = job["jobDetail"]["taskDetails"]
    by_name = Counter((one["taskName"], one["state"]) for one in tasks)
    assert not {"RUNNING", "PENDING"} & {one["state"] for one in tasks}
    marks = runs.folder / "marks"
    done = Counter(marks.read_text().split() if marks.exists() else [])
    assert done.total() == len(done), f"executed twice: {done}"
    assert by_name["close-down", "SUCCEEDED"] == 1, tasks
    is_complete = set(done) == {"go", "then", "x", "y"} and not any(
        state == "FAILED" and name != "close-down" for name, state in by_name
    )
    state = "SUCCEEDED" if is_complete else "FAILED"
    assert job["state"] == f"PIPELINE_STATE_{state}"
    assert notes(runs)[-1]["state"] == state
    names, every = (
        {name for name, _ in by_name},
        {"mark", "mark-2", "mark-3", "mark-4", "close-down"},
    )
    # Tasks run side by side: those that had not started are not in a run that cannot go on.
    assert names == every if is_complete else {"mark", "close-down"} <= names <= every


def kill_at(runs: Runs, number: int, kill) -> dict:
    """Start a run of `every_kind`; kill once its journal has that many of 13 events."""
    job = start(runs, every_kind)
    path = runs.files(job) / journal.FILE_NAME
    deadline = time.monotonic() + 40
    while not (path.exists() and path.read_bytes().count(b"\n") >= number):
        assert time.monotonic() < deadline, f"event {number} did not come: {runs.log(job)}"
    kill(runs, job)
    return job


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [3, 6, 9, 12])
def test_a_run_is_finished_after_its_runner_was_killed_at_any_event(runs, number):
    job = kill_at(runs, number, kill_runner)
    check_end(runs, runs.wait(job))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [2, 8])
def test_the_next_service_finishes_a_run_after_a_kill_at_any_event(runs, number):
    job = kill_at(runs, number, lambda runs, job: runs.service.kill())
    runs.service.start()
    check_end(runs, runs.wait(job))
