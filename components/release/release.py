"""Puts a model version into service: deployed, given traffic, asked, and back when it fails."""

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

    If that or the block fails, the endpoint is left as it was. Without golden predictions, or
    traffic, only the server's health is checked, by the deployment itself.

    Raises:
        ParityError: the version does not repeat its golden predictions.
        VertexError: the deployment failed, or the endpoint answers with an error.
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
    """Serve a promoted version on an endpoint that is to be kept or that serves now.

    Where neither holds, nothing is done. Older versions of the model are undeployed.
    """
    endpoint = find_endpoint(api, endpoint_name)
    logger.info("the trained model is %s already: no version is registered", version)
    if not keep_endpoint and not (endpoint and is_serving(endpoint)):
        return
    endpoint = endpoint or ensure_endpoint(api, endpoint_name, run=run)
    if traffic_of(endpoint).get(find_deployed(endpoint, version)) != WHOLE:
        with released(api, endpoint, version, golden=golden, machine=machine):
            pass
    undeploy_idle(api, endpoint["name"], keep=version)
