"""Starts and lists training jobs, and waits for them, by Vertex AI's REST API."""

import time
import uuid
from collections.abc import Callable

from components.labels import SUBMISSION_LABEL
from components.vertex.api import VertexApi
from pipelines.kinds import Kind
from pipelines.resources import Table, short_name, when
from trainer.json_types import Json

JOB = Kind(
    noun="job",
    collection="customJobs",
    state_prefix="JOB_STATE_",
    final_states=frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"}),
)
POLL_SECONDS = 0.5


def create_job(api: VertexApi, request: Json) -> Json:
    """Start a training job, once however often it is sent; return it as it was created.

    Vertex AI chooses the id of a job, so a label tells whether an earlier attempt was carried out.
    """
    submission = uuid.uuid4().hex
    labels = {**request.get("labels", {}), SUBMISSION_LABEL: submission}
    mine = f'labels.{SUBMISSION_LABEL}="{submission}"'
    return api.post(
        f"{api.parent}/customJobs",
        {**request, "labels": labels},
        find=lambda: next(api.list_resources("customJobs", filter=mine), None),
    )


def jobs_table(api: VertexApi) -> Table:
    """Training jobs, newest first."""
    jobs = sorted(api.list_resources("customJobs"), key=lambda job: job["createTime"], reverse=True)
    rows: list[tuple[str, ...]] = [
        (short_name(job["name"]), JOB.state_of(job), when(job), job["displayName"]) for job in jobs
    ]
    return Table(("JOB_ID", "STATUS", "CREATED", "NAME"), rows)


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
    while not JOB.is_final(job := JOB.get(api, job_id)):
        left = deadline - clock()
        if left <= 0:
            raise TimeoutError(
                f"job {job_id} is {JOB.state_of(job)} after {timeout_seconds:g} s; it goes on"
            )
        time.sleep(min(POLL_SECONDS, left))
    return job
