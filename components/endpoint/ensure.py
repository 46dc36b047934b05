"""Finds an endpoint by its display name, or creates it."""

import hashlib
import logging
import re

from components.labels import RUN_LABEL
from components.vertex_api import Json, VertexApi

logger = logging.getLogger(__name__)

CREATE_TIMEOUT_SECONDS = 600
MAX_SLUG = 48


def ensure_endpoint(api: VertexApi, display_name: str, *, run: str) -> Json:
    """Return the endpoint of a name; a new one carries the run's label, so teardown finds it."""
    existing = find_endpoint(api, display_name)
    if existing:
        logger.info("reusing the endpoint %s (%s)", display_name, existing["name"])
        return existing
    body = {"displayName": display_name, "labels": {RUN_LABEL: run}}
    path = f"{api.parent}/endpoints?endpointId={endpoint_id(display_name, run=run)}"
    created = api.wait(api.post(path, body), timeout_seconds=CREATE_TIMEOUT_SECONDS)
    logger.info("created the endpoint %s (%s)", display_name, created["name"])
    return created


def find_endpoint(api: VertexApi, display_name: str) -> Json | None:
    """Return the oldest endpoint of a display name."""
    found = api.list_resources("endpoints", filter=f'display_name="{display_name}"')
    return min(found, key=lambda endpoint: str(endpoint["createTime"]), default=None)


def endpoint_id(display_name: str, *, run: str) -> str:
    """Return the id for a run's new endpoint: one of ours, so that creating it can be repeated.

    CreateEndpointRequest.endpoint_id: at most 63 of a-z, 0-9 and '-', the first a letter.
    """
    slug = re.sub("[^a-z0-9]+", "-", display_name.lower()).strip("-")
    digest = hashlib.sha256(f"{display_name}\0{run}".encode()).hexdigest()[:10]
    return f"e-{slug[:MAX_SLUG]}-{digest}" if slug else f"e-{digest}"
