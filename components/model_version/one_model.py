"""One model per display name, also if two runs create it at the same time."""

import logging

from components.model_version.registry import DEFAULT, LRO_TIMEOUT_SECONDS, find_model
from components.shared.vertex.api import VertexApi
from components.shared.vertex.creations import upload_model
from components.shared.vertex.resource_name import ResourceName

logger = logging.getLogger(__name__)

# Fields of a version that an upload takes; the others are set by Vertex AI.
UPLOADED_FIELDS = (
    "displayName",
    "description",
    "versionDescription",
    "versionAliases",
    "labels",
    "containerSpec",
    "artifactUri",
    "predictSchemata",
)


def in_oldest_model(api: VertexApi, version: ResourceName) -> ResourceName:
    """Return a version, moved to the oldest model of its display name if it is in another one.

    Two runs that find no model create one each; the younger one becomes a version of the older.
    """
    body = api.get(version.name)
    oldest = find_model(api, body["displayName"])
    if oldest == version.unversioned:
        return version
    aliases = [alias for alias in body.get("versionAliases", []) if alias != DEFAULT]
    copied = {name: body[name] for name in UPLOADED_FIELDS if name in body}
    operation = upload_model(api, {**copied, "versionAliases": aliases}, parent=oldest)
    answer = api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    moved = ResourceName.from_name(answer["model"]).with_version(answer["modelVersionId"])
    api.wait(api.delete(version.unversioned), timeout_seconds=LRO_TIMEOUT_SECONDS)
    logger.warning("another run created %s meanwhile: %s became %s", oldest, version, moved)
    return moved
