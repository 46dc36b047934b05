"""What is wrong with a training job that goes on all the same."""

import logging

from components.vertex.api import VertexApi, VertexError
from components.vertex.resource_name import ResourceName
from trainer.json_types import Json

logger = logging.getLogger(__name__)

_NOT_FOUND = 404


def replicas_of(api: VertexApi, job_id: str) -> Json | None:
    """Return `replicas` and `warnings` of a job: {} before it has started, None on Vertex AI.

    The resource is this machine's service's own; Vertex AI answers 404.
    """
    try:
        return api.get(f"{api.parent}/customJobs/{job_id}/replicas")
    except VertexError as error:
        if error.code != _NOT_FOUND:
            raise
        return None


def replicas_of_jobs(api: VertexApi, *, label: str) -> list[Json]:
    """Return the same for each job that a filter for a run's label finds; none if none can be read.

    A run should neither fail for want of it, nor stay without a summary.
    """
    try:
        jobs = api.list_resources("customJobs", filter=label)
        told = [replicas_of(api, ResourceName.from_name(job["name"]).id) for job in jobs]
    except VertexError as error:
        logger.warning("the replicas of %s cannot be read: %s", label, error)
        return []
    return [one for one in told if one]


def job_warnings(api: VertexApi, job_id: str) -> list[str]:
    """Return the warnings of a job, none on Vertex AI."""
    told: list[str] = (replicas_of(api, job_id) or {}).get("warnings", [])
    return told
