"""State of a training job's replicas, and warnings about a job that still runs."""

import logging
from http import HTTPStatus

from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

logger = logging.getLogger(__name__)


def replicas_of(api: VertexApi, job_id: str) -> Json | None:
    """Return `replicas` and `warnings` of a job: {} before it has started, None on Vertex AI.

    Only the local service has this resource; Vertex AI returns 404.
    """
    try:
        return api.get(f"{api.parent}/customJobs/{job_id}/replicas")
    except VertexError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return None


def replicas_of_jobs(api: VertexApi, *, label: str) -> list[Json]:
    """Return `replicas` and `warnings` of each job that the filter `label` matches.

    An error is logged and the list is empty: a run must not fail, or lack its summary, over this.
    """
    try:
        jobs = api.list_resources("customJobs", filter=label)
        responses = [replicas_of(api, ResourceName.from_name(job["name"]).id) for job in jobs]
    except VertexError as error:
        logger.warning("the replicas of %s cannot be read: %s", label, error)
        return []
    return [replicas for replicas in responses if replicas]


def job_warnings(api: VertexApi, job_id: str) -> list[str]:
    """Return the warnings of a job, none on Vertex AI."""
    warnings: list[str] = (replicas_of(api, job_id) or {}).get("warnings", [])
    return warnings
