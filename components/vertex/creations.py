"""Creations that are safe to retry: each chooses an id that finds an earlier attempt's result."""

import contextlib
import re
import secrets
import uuid

from components.vertex.api import VertexApi, finished
from components.vertex.errors import VertexError
from components.vertex.labels import SUBMISSION_LABEL
from trainer import Json

DEPLOY_TIMEOUT_SECONDS = 1800
MAX_READABLE = 48  # characters of the display name in a model's id, which may have 63
NUM_DEPLOYED_IDS = 9 * 10**9  # DeployedModel.id: up to ten digits


def create_endpoint(api: VertexApi, body: Json) -> Json:
    """Create an endpoint, only one even if the request is retried; return the operation."""
    endpoints = f"{api.parent}/endpoints"
    endpoint_id = f"e{uuid.uuid4().hex}"
    return api.post(
        f"{endpoints}?endpointId={endpoint_id}",
        body,
        find=lambda: finished(api.find(f"{endpoints}/{endpoint_id}")),
    )


def deploy_model(api: VertexApi, endpoint: str, deployed_model: Json) -> Json:
    """Deploy a model, only once even if the request is retried; return the operation.

    The model gets no traffic if another one has it.

    Args:
        api: Project and location.
        endpoint: Resource name of the endpoint.
        deployed_model: The DeployedModel of the request, without an id.
    """
    deployed_id = str(10**9 + secrets.randbelow(NUM_DEPLOYED_IDS))

    def find() -> Json | None:
        # The endpoint lists a deployed model only once the operation is done.
        _await_operations(api, endpoint)
        deployed = api.get(endpoint).get("deployedModels", [])
        ours = next((model for model in deployed if model["id"] == deployed_id), None)
        return finished(ours and {"deployedModel": ours})

    request = {"deployedModel": {**deployed_model, "id": deployed_id}}
    return api.post(f"{endpoint}:deployModel", request, find=find)


def upload_model(api: VertexApi, model: Json, *, parent: str) -> Json:
    """Upload a model, only once even if the request is retried; return the operation.

    Args:
        api: Project and location.
        model: The Model of the request.
        parent: Resource name of the model to add a version to; "" for a new model.
    """
    submission = uuid.uuid4().hex
    model_id = f"{_readable(model['displayName'])}-{submission[:12]}"
    name = parent or f"{api.parent}/models/{model_id}"
    by_submission = f'labels.{SUBMISSION_LABEL}="{submission}"'

    def find() -> Json | None:
        _await_operations(api, name)
        if not api.find(name):
            return None
        versions = list(api.list_resources(f"{name}:listVersions", filter=by_submission))
        ours = next(iter(versions), None)
        return finished(ours and {"model": name, "modelVersionId": str(ours["versionId"])})

    labels = {**model.get("labels", {}), SUBMISSION_LABEL: submission}
    target = {"parentModel": parent} if parent else {"modelId": model_id}
    request = {"model": {**model, "labels": labels}, **target}
    return api.post(f"{api.parent}/models:upload", request, find=find)


def _readable(display_name: str) -> str:
    """Return a display name in the characters of an id; an id starts with a letter."""
    text = re.sub("[^a-z0-9]+", "-", display_name.lower()).strip("-")
    return (text if text[:1].isalpha() else f"m-{text}")[:MAX_READABLE].rstrip("-")


def _await_operations(api: VertexApi, name: str) -> None:
    """Wait until every operation on a resource has succeeded or failed."""
    try:
        operations = list(api.list_resources(f"{name}/operations"))
    except VertexError as error:
        if error.status != "NOT_FOUND":
            raise
        return
    for operation in operations:
        with contextlib.suppress(VertexError):
            api.wait(operation, timeout_seconds=DEPLOY_TIMEOUT_SECONDS)
