"""What is wrong with a training job that goes on all the same."""

from components.vertex.api import Json, VertexApi, VertexError

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


def job_warnings(api: VertexApi, job_id: str) -> list[str]:
    """Return the warnings of a job, none on Vertex AI."""
    told: list[str] = (replicas_of(api, job_id) or {}).get("warnings", [])
    return told
