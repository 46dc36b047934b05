"""Release of a model version: deployment, traffic and check, undone if one of them fails."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from components.endpoint.deployments import (
    Move,
    deploy,
    find_deployed,
    is_serving,
    moved_traffic,
    traffic_of,
    undeploy_idle,
    undeploy_version,
)
from components.endpoint.ensure import ensure_endpoint, find_endpoint
from components.endpoint.traffic import WHOLE, all_to
from components.predict.step import check_version
from components.vertex.api import VertexApi
from components.vertex.resource_name import ResourceName
from trainer.json_types import Json

logger = logging.getLogger(__name__)


@contextmanager
def released(
    api: VertexApi,
    endpoint: Json,
    version: ResourceName,
    *,
    golden: Json | None,
    machine: str,
    move: Move = all_to,
) -> Iterator[None]:
    """Deploy a version unless it is deployed, give it traffic and check its predictions.

    If that or the block fails, the endpoint is restored. Without golden predictions, or without
    traffic, nothing but the server's health is checked, which the deployment does itself.

    Raises:
        StepError: The version does not repeat its golden predictions.
        VertexError: The deployment or a request failed.
    """
    name = endpoint["name"]
    is_new = not find_deployed(endpoint, version)
    if is_new:
        deploy(api, name, version, machine=machine)
    try:
        with moved_traffic(api, name, version, move=move) as share:
            if golden and share:
                check_version(api, name, version, golden, percentage=share)
            yield
    except BaseException:
        if is_new:
            undeploy_version(api, api.get(name), version)
        raise


def serve_promoted(
    api: VertexApi,
    version: ResourceName,
    *,
    endpoint_name: str,
    machine: str,
    keep_endpoint: bool,
    run: str,
    golden: Json,
) -> None:
    """Serve a promoted version, if the endpoint is to be kept or is serving; else do nothing.

    Older versions of the model are undeployed.
    """
    endpoint = find_endpoint(api, endpoint_name)
    logger.info("the trained model is the same as %s: no new version is registered", version)
    if not keep_endpoint and not (endpoint and is_serving(endpoint)):
        return
    endpoint = endpoint or ensure_endpoint(api, endpoint_name, run=run)
    if traffic_of(endpoint).get(find_deployed(endpoint, version)) != WHOLE:
        with released(api, endpoint, version, golden=golden, machine=machine):
            pass
    undeploy_idle(api, endpoint["name"], keep=version)
