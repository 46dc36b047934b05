"""States of an endpoint's prediction servers, which only the local service reports."""

from http import HTTPStatus

from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from trainer import Json


def server_states(api: VertexApi, endpoint: str) -> dict[str, Json]:
    """Return `state`, `restarts` and more of each server, by the id of the deployed model.

    The dict is empty on Vertex AI, which has no such resource and returns 404.
    """
    try:
        found = api.get(f"{endpoint}/deployedModels").get("deployedModels", [])
    except VertexError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return {}
    return {str(one["id"]): one for one in found}
