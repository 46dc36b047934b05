"""Deletion of the endpoints that have expired."""

import logging
from collections.abc import Iterator

from components.endpoint.deployments import delete_endpoint
from components.endpoint.expiry import has_expired
from components.shared.run_summary.settings import parameters_of
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName

logger = logging.getLogger(__name__)

ACTIVE = " OR ".join(f'state="PIPELINE_STATE_{s}"' for s in ("QUEUED", "PENDING", "RUNNING"))
# Lists omit only `jobDetail`; the specification has the defaults of parameters.
# https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs
FIELDS = "name,pipelineSpec,runtimeConfig"
SUFFIX = " (expired)"
MAX_NAME = 128  # characters


def delete_expired(api: VertexApi, *, run: str) -> Iterator[str]:
    """Delete the endpoints that have expired; yield the failures, a line each.

    An endpoint that another run than `run` may deploy to is left to a later teardown. The others
    first get a name by which no run finds them: on Vertex AI the undeployment takes minutes.
    """
    expired = [body for body in api.list_resources("endpoints") if has_expired(body)]
    in_use = _in_use(api, run=run) if expired else set()
    for endpoint in expired:
        name = endpoint["displayName"]
        if name in in_use:
            logger.info("the endpoint %s has expired, but a run deploys to it", name)
            continue
        logger.info("the endpoint %s has expired and is deleted", name)
        hidden = name.removesuffix(SUFFIX)[: MAX_NAME - len(SUFFIX)] + SUFFIX
        changes = {"displayName": hidden, "etag": endpoint.get("etag", "")}
        try:
            api.patch(f"{endpoint['name']}?updateMask=displayName", changes)
            delete_endpoint(api, endpoint)
        except (VertexError, OSError) as error:
            if getattr(error, "status", "") != "NOT_FOUND":  # another teardown was faster
                yield f"the expired endpoint {name} remains: {error}"


def _in_use(api: VertexApi, *, run: str) -> set[str]:
    """Return the names of the endpoints of the runs that have not ended, except `run`."""
    active = api.list_resources("pipelineJobs", filter=ACTIVE, readMask=FIELDS)
    others = (job for job in active if ResourceName.from_name(job["name"]).id != run)
    return {str(parameters_of(job).get("endpoint_name", "")) for job in others}
