"""Search for an endpoint by its display name, and creation of a new one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from components.shared.vertex.api import VertexApi, list_named
from components.shared.vertex.creations import create_endpoint
from components.shared.vertex.labels import RUN_LABEL
from trainer import Json

logger = logging.getLogger(__name__)


def ensure_endpoint(api: VertexApi, display_name: str, *, run: str, endpoint_id: str = "") -> Json:
    """Return the endpoint of a display name, or create it with the label of the run.

    If two runs create it at the same time, the older one is kept.
    """
    existing = find_endpoint(api, display_name)
    if existing:
        logger.info("reusing the endpoint %s (%s)", display_name, existing["name"])
        return existing
    body = {"displayName": display_name, "labels": {RUN_LABEL: run}}
    operation = create_endpoint(api, body, endpoint_id=endpoint_id)
    created = api.wait(operation)
    oldest = find_endpoint(api, display_name) or created
    if oldest["name"] != created["name"]:
        logger.info("another run created the endpoint %s (%s)", display_name, oldest["name"])
        api.wait(api.delete(created["name"]))
        return oldest
    logger.info("created the endpoint %s (%s)", display_name, created["name"])
    return created


@contextmanager
def ensured_endpoint(api: VertexApi, display_name: str, *, run: str) -> Iterator[Json]:
    """Find or create an endpoint; if the block fails, delete a new one that serves nothing."""
    is_new = find_endpoint(api, display_name) is None
    endpoint = ensure_endpoint(api, display_name, run=run)
    try:
        yield endpoint
    except BaseException:
        if is_new and not api.get(endpoint["name"]).get("deployedModels"):
            api.delete(endpoint["name"])
        raise


def find_endpoint(api: VertexApi, display_name: str) -> Json | None:
    """Return the oldest endpoint of a display name, None without one."""
    endpoints = list_named(api, "endpoints", display_name)
    return min(endpoints, key=lambda body: (str(body["createTime"]), body["name"]), default=None)
