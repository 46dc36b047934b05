"""Custom jobs of tests, and the end of what a service runs."""

from typing import Any

from vertex_local.tests.support.waiting import wait_until


def pool(code: str, count: int = 1, **container: Any) -> dict[str, Any]:
    """Return the pool of replicas of a program, or of another command."""
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": count,
        "containerSpec": {"imageUri": "image", "command": ["python", "-c", code], **container},
    }


def job(*pools: dict[str, Any], **job_spec: Any) -> dict[str, Any]:
    """Return the body of a request for a job."""
    return {"displayName": "mnist", "jobSpec": {"workerPoolSpecs": list(pools), **job_spec}}


def python_job(*codes: str, image: str = "image", **job_spec: Any) -> dict[str, Any]:
    """Return the body of a request for a job with a replica for each program."""
    return job(*(pool(code, imageUri=image) for code in codes), **job_spec)


def wait_for_end(
    service, created: dict[str, Any], *, timeout_seconds: float = 60
) -> dict[str, Any]:
    """Return a job or a run once it has ended."""

    def ended() -> Any:
        found = service.do("GET", f"/v1/{created['name']}")
        return found if "endTime" in found else None

    return wait_until(ended, f"the end of {created['name']}", timeout_seconds=timeout_seconds)
