"""Finds an endpoint by its display name, or creates it."""

import logging

from components.creations import create_endpoint
from components.labels import RUN_LABEL
from components.vertex_api import VertexApi

logger = logging.getLogger(__name__)

CREATE_TIMEOUT_SECONDS = 600


def ensure_endpoint(api: VertexApi, display_name: str, *, run: str) -> str:
    """The endpoint's resource name; a new one carries the run's label, so teardown finds it."""
    existing = list(api.list_resources("endpoints", filter=f'display_name="{display_name}"'))
    if existing:
        name = str(min(existing, key=lambda endpoint: endpoint["createTime"])["name"])
        logger.info("reusing the endpoint %s (%s)", display_name, name)
        return name
    body = {"displayName": display_name, "labels": {RUN_LABEL: run}}
    operation = create_endpoint(api, body)
    name = str(api.wait(operation, timeout_seconds=CREATE_TIMEOUT_SECONDS)["name"])
    logger.info("created the endpoint %s (%s)", display_name, name)
    return name
