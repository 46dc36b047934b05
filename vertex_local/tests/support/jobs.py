"""Custom jobs of tests, and the end of what a service runs."""

from typing import Any

from vertex_local.tests.support.waiting import wait_until


def python_job(*codes: str, image: str = "image", **job_spec: Any) -> dict[str, Any]:
    """Return the body of a request for a job with a replica for each program."""
    pools = [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": 1,
            "containerSpec": {"imageUri": image, "command": ["python", "-c", code]},
        }
        for code in codes
    ]
    return {"displayName": "job", "jobSpec": {"workerPoolSpecs": pools, **job_spec}}


def wait_for_end(service, created: dict[str, Any]) -> dict[str, Any]:
    """Return a job or a run once it has ended."""

    def ended() -> Any:
        found = service.do("GET", f"/v1/{created['name']}")
        return found if "endTime" in found else None

    return wait_until(ended, f"the end of {created['name']}")
