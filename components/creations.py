"""Creations that may be repeated: each chooses an id by which an earlier attempt is found."""

import contextlib
import secrets
import uuid

from components.vertex_api import Json, VertexApi, VertexError, finished

DEPLOY_TIMEOUT_SECONDS = 1800
NUM_DEPLOYED_IDS = 9 * 10**9  # DeployedModel.id: up to ten digits


def create_endpoint(api: VertexApi, body: Json) -> Json:
    """Create an endpoint, one however often the request is sent; return the operation."""
    endpoints = f"{api.parent}/endpoints"
    endpoint_id = f"e{uuid.uuid4().hex}"
    return api.post(
        f"{endpoints}?endpointId={endpoint_id}",
        body,
        find=lambda: finished(api.find(f"{endpoints}/{endpoint_id}")),
    )


def deploy_model(api: VertexApi, endpoint: str, deployed_model: Json) -> Json:
    """Deploy a model, once however often the request is sent; return the operation.

    Where another model has the traffic, the new one gets none.

    Args:
        api: Where.
        endpoint: Its resource name.
        deployed_model: The DeployedModel of the request, without an id.
    """
    deployed_id = str(10**9 + secrets.randbelow(NUM_DEPLOYED_IDS))

    def find() -> Json | None:
        # An earlier attempt is not among the endpoint's models before its operation is done.
        for operation in list(api.list_resources(f"{endpoint}/operations")):
            with contextlib.suppress(VertexError):
                api.wait(operation, timeout_seconds=DEPLOY_TIMEOUT_SECONDS)
        there = api.get(endpoint).get("deployedModels", [])
        ours = next((one for one in there if one["id"] == deployed_id), None)
        return finished(ours and {"deployedModel": ours})

    request = {"deployedModel": {**deployed_model, "id": deployed_id}}
    return api.post(f"{endpoint}:deployModel", request, find=find)
