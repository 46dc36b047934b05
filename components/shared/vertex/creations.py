"""Creations that are safe to retry: each chooses an id that finds an earlier attempt's result."""

import contextlib
import hashlib
import logging
import re
import secrets
import uuid

from components.shared.vertex.api import VertexApi, finished
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import SUBMISSION_LABEL
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

logger = logging.getLogger(__name__)

DEPLOY_TIMEOUT_SECONDS = 1800
MAX_READABLE = 48  # characters of the display name in a model's id, which may have 63
NUM_DEPLOYED_IDS = 9 * 10**9  # DeployedModel.id: up to ten digits


def endpoint_id_of(run: str) -> str:
    """Return the id of the endpoint that a run creates, if it does."""
    return f"e{hashlib.sha256(run.encode()).hexdigest()[:32]}"


def create_endpoint(api: VertexApi, body: Json, *, endpoint_id: str = "") -> Json:
    """Create an endpoint, only one even if the request is retried; return the operation.

    With an `endpoint_id` that is in use, return the endpoint with it: the step was repeated.
    """
    endpoints = f"{api.parent}/endpoints"
    name = f"{endpoints}/{endpoint_id or f'e{uuid.uuid4().hex}'}"
    path = f"{endpoints}?endpointId={ResourceName.from_name(name).id}"
    try:
        return api.post(path, body, find=lambda: finished(api.find(name)))
    except VertexError as error:
        if not endpoint_id or error.status != "ALREADY_EXISTS":
            raise
        await_operations(api, name)
        return {"done": True, "response": api.get(name)}


def deploy_model(api: VertexApi, endpoint: str, deployed_model: Json) -> Json:
    """Deploy a model with an id, once even if the request is retried; return the operation.

    The model gets no traffic if another one has it.
    """

    def find() -> Json | None:
        # The endpoint lists a deployed model only once the operation is done.
        await_operations(api, endpoint)
        deployed = api.get(endpoint).get("deployedModels", [])
        entry = next((model for model in deployed if model["id"] == deployed_model["id"]), None)
        return finished(entry and {"deployedModel": entry})

    return api.post(f"{endpoint}:deployModel", {"deployedModel": deployed_model}, find=find)


def new_deployed_id() -> str:
    """Return an id for a deployed model."""
    return str(10**9 + secrets.randbelow(NUM_DEPLOYED_IDS))


def upload_model(api: VertexApi, model: Json, *, parent: str) -> Json:
    """Upload a model, only once even if the request is retried; return the operation.

    `parent` is the model to add a version to, "" for a new model.
    """
    submission = uuid.uuid4().hex
    model_id = f"{_readable(model['displayName'])}-{submission[:12]}"
    name = parent or f"{api.parent}/models/{model_id}"
    by_submission = f'labels.{SUBMISSION_LABEL}="{submission}"'

    def find() -> Json | None:
        await_operations(api, name)
        if not api.find(name):
            return None
        versions = list(api.list_resources(f"{name}:listVersions", filter=by_submission))
        version = next(iter(versions), None)
        return finished(version and {"model": name, "modelVersionId": str(version["versionId"])})

    labels = {**model.get("labels", {}), SUBMISSION_LABEL: submission}
    target = {"parentModel": parent} if parent else {"modelId": model_id}
    request = {"model": {**model, "labels": labels}, **target}
    return api.post(f"{api.parent}/models:upload", request, find=find)


def create_labelled(api: VertexApi, collection: str, resource: Json) -> Json:
    """Create a resource whose id Vertex AI chooses, once however often it is sent; return it.

    A label identifies the resource of an earlier attempt.
    """
    submission = uuid.uuid4().hex
    labels = {**resource.get("labels", {}), SUBMISSION_LABEL: submission}
    by_submission = f'labels.{SUBMISSION_LABEL}="{submission}"'
    return api.post(
        f"{api.parent}/{collection}",
        {**resource, "labels": labels},
        find=lambda: next(api.list_resources(collection, filter=by_submission), None),
    )


def _readable(display_name: str) -> str:
    """Return a display name in the characters of an id; an id starts with a letter."""
    text = re.sub("[^a-z0-9]+", "-", display_name.lower()).strip("-")
    return (text if text[:1].isalpha() else f"m-{text}")[:MAX_READABLE].rstrip("-")


def await_operations(api: VertexApi, name: str, *, is_cancelled: bool = False) -> None:
    """Wait until every operation on a resource has succeeded or failed; cancel them first if so.

    Raises:
        TimeoutError: One has not ended in time; names it.
    """
    try:
        operations = list(api.list_resources(f"{name}/operations"))
    except VertexError as error:
        if error.status != "NOT_FOUND":
            raise
        return
    for operation in operations:
        if operation.get("done"):
            continue
        logger.info("waiting for the end of the operation %s", operation["name"])
        with contextlib.suppress(VertexError):  # it has ended, and failed
            if is_cancelled:
                api.post(f"{operation['name']}:cancel", {})
            api.wait(operation, timeout_seconds=DEPLOY_TIMEOUT_SECONDS)
