"""Reads and changes training jobs, by Vertex AI's REST API."""

import time
from collections.abc import Callable

from components.model_version.registry import LRO_TIMEOUT_SECONDS
from components.vertex_api import Json, VertexApi, VertexError
from pipelines.report import short_name
from pipelines.resources import ResourceError, Table, when

STATE_PREFIX = "JOB_STATE_"
FINAL_STATES = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED")
POLL_SECONDS = 0.5


def create_job(api: VertexApi, request: Json) -> Json:
    """Starts a training job; answers it as it was created."""
    return api.post(f"{api.parent}/customJobs", request)


def get_job(api: VertexApi, job_id: str) -> Json:
    """One training job as Vertex AI answers it."""
    return api.get(job_name(api, job_id))


def state_of(job: Json) -> str:
    """`RUNNING`, without the prefix."""
    return str(job.get("state", "")).removeprefix(STATE_PREFIX)


def is_final(job: Json) -> bool:
    """Whether a job has ended."""
    return state_of(job) in FINAL_STATES


def jobs_table(api: VertexApi) -> Table:
    """Training jobs, newest first."""
    jobs = sorted(api.list_resources("customJobs"), key=lambda job: job["createTime"], reverse=True)
    rows: list[tuple[str, ...]] = [
        (short_name(job["name"]), state_of(job), when(job), job["displayName"]) for job in jobs
    ]
    return Table(("JOB_ID", "STATUS", "CREATED", "NAME"), rows)


def cancel_job(api: VertexApi, job_id: str) -> Json:
    """Asks for the end of a training job unless it has ended; answers the job as it was."""
    job = get_job(api, job_id)
    if is_final(job):
        return job
    try:
        api.post(f"{job_name(api, job_id)}:cancel", {})
    except VertexError as error:
        if error.status != "FAILED_PRECONDITION":  # it has ended meanwhile
            raise
    return job


def delete_job(api: VertexApi, job_id: str) -> None:
    """Deletes a job that has ended, with its log.

    Raises:
        ResourceError: it has not ended; says what to do.
    """
    job = get_job(api, job_id)
    if not is_final(job):
        raise ResourceError(
            f"job {job_id} is {state_of(job)}; end it first: trainyard jobs cancel {job_id}, "
            f"then trainyard jobs wait {job_id}"
        )
    api.wait(api.delete(job_name(api, job_id)), timeout_seconds=LRO_TIMEOUT_SECONDS)


def wait_for_job(
    api: VertexApi,
    job_id: str,
    *,
    timeout_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Json:
    """The job once it has ended.

    Raises:
        TimeoutError: it had not ended in time; says its state.
    """
    deadline = clock() + (float("inf") if timeout_seconds is None else timeout_seconds)
    while not is_final(job := get_job(api, job_id)):
        left = deadline - clock()
        if left <= 0:
            raise TimeoutError(
                f"job {job_id} is {state_of(job)} after {timeout_seconds:g} s; it goes on"
            )
        time.sleep(min(POLL_SECONDS, left))
    return job


def job_name(api: VertexApi, job_id: str) -> str:
    """The resource name of a job."""
    return f"{api.parent}/customJobs/{job_id}"
