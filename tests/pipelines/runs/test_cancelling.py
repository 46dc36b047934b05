"""Cancelling a run at any moment of it: one end, one exit task, nothing left, honest followers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from kfp import compiler, dsl

from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import Fork, forks_with
from vertex_local.tests.support.pipeline_runs import STEP, Runs, left_in, task_detail
from vertex_local.tests.support.pipeline_steps import close_down, hold, notes
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import PRELOAD_KFP, running_service
from vertex_local.tests.support.waiting import wait_until

PARENT = "projects/local/locations/us-central1"  # where the commands look
FAILED = 1  # the exit code
WAIT_SECONDS = 60


@dsl.component(**STEP)
def fail_always(folder: str):
    from pathlib import Path

    (Path(folder) / "attempt").touch()
    raise ValueError("not yet")


@dsl.pipeline(name="in-training")
def in_training(folder: str):
    code = f"import os, time; open('{folder}/pids', 'w').write(str(os.getpid())); time.sleep(600)"
    container = {"image_uri": "any", "command": ["python", "-c", code]}
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        CustomTrainingJobOp(
            display_name="train",
            worker_pool_specs=[{**pool, "container_spec": container}],
            project="local",
            location="us-central1",
        )


@dsl.pipeline(name="in-back-off")
def in_back_off(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        fail_always(folder=folder).set_retry(num_retries=3, backoff_duration="600s")


@dsl.pipeline(name="in-the-exit-task")
def in_the_exit_task(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        dsl.importer(artifact_uri="/nowhere", artifact_class=dsl.Dataset)


@pytest.fixture
def runs(tmp_path, temp_folder, monkeypatch):
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    with running_service(tmp_path / "vertex", *PRELOAD_KFP) as service:
        yield Runs(service, tmp_path)


def follow(runs: Runs, *arguments: str) -> Fork:
    """Start a `trainyard` command that runs until the run or job has ended."""
    return forks_with(*EVERYTHING).start(
        ["python", "-m", "pipelines.cli", *arguments],
        log_path=runs.folder / f"{arguments[0]}.out",
        VERTEX_EMULATOR_HOST=runs.service.url.removeprefix("http://"),
    )


def cancel(runs: Runs, pipeline: Callable, file: str, *, count: int = 1) -> tuple[dict, list[Fork]]:
    """Run a pipeline with followers; cancel it once a step has written a file."""
    package = runs.folder / "package.yaml"
    compiler.Compiler().compile(pipeline, str(package))
    followers = [follow(runs, "submit", str(package), "--wait", "--set", f"folder={runs.folder}")]
    wait_until((runs.folder / file).exists, "the moment", timeout_seconds=WAIT_SECONDS)
    [job] = runs.service.do("GET", f"/v1/{PARENT}/pipelineJobs")["pipelineJobs"]
    followers.append(follow(runs, "runs", "logs", job["name"].rpartition("/")[2], "--follow"))
    for trained in jobs_of(runs):
        job_id = trained["name"].rpartition("/")[2]
        followers.append(follow(runs, "jobs", "logs", job_id, "--follow"))
    for _ in range(count):
        runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
    return job, followers


def jobs_of(runs: Runs) -> list[dict]:
    return runs.service.do("GET", f"/v1/{PARENT}/customJobs").get("customJobs", [])


def check_end(runs: Runs, job: dict, followers: list[Fork], temp_folder: Path) -> None:
    job = runs.wait(job, timeout_seconds=WAIT_SECONDS)
    assert job["state"] == "PIPELINE_STATE_CANCELLED", job
    assert job["error"]["code"] == 1
    assert len(notes(runs)) == 1, "the exit task runs once"
    pids = runs.folder.glob("pids")
    assert not any(is_running(int(pid)) for path in pids for pid in path.read_text().split())
    assert {trained["state"] for trained in jobs_of(runs)} <= {"JOB_STATE_CANCELLED"}
    assert left_in(temp_folder) == []
    for follower in followers:
        assert follower.wait(WAIT_SECONDS) == FAILED, follower.output
        assert "CANCELLED" in follower.output


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("pipeline", "file", "count"),
    [(in_training, "pids", 2), (in_back_off, "attempt", 1)],
    ids=["in training, twice", "in the back-off of a retry"],
)
def test_a_cancelled_run_ends_once_and_leaves_nothing(runs, temp_folder, pipeline, file, count):
    check_end(runs, *cancel(runs, pipeline, file, count=count), temp_folder)


@pytest.mark.timeout(120)
def test_a_cancel_during_the_exit_task_says_that_the_results_stay(runs, temp_folder):
    held = hold(runs)
    job, followers = cancel(runs, in_the_exit_task, "notes")
    held.unlink()
    check_end(runs, job, followers, temp_folder)
    job = runs.get(job)
    assert [one["state"] for one in notes(runs)] == ["SUCCEEDED"], "it had started before"
    assert task_detail(job, "close-down")["state"] == "SUCCEEDED"
    assert "their results stay" in job["error"]["message"]
