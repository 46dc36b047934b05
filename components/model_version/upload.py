"""Container of a model version, and upload of one by hand, as the pipeline's ModelUploadOp does."""

from collections.abc import Mapping, Sequence

from components.model_version.history import UPLOADED
from components.model_version.registry import (
    DEFAULT,
    LRO_TIMEOUT_SECONDS,
    find_model,
    set_default,
)
from components.shared.vertex.api import VertexApi
from components.shared.vertex.creations import upload_model
from components.shared.vertex.resource_name import ResourceName
from trainer import Json
from trainer.config.trust import OWN, STRANGER, Trust

SERVING_PORT = 8080


def serving_container(image: str, *, trust: Trust = OWN) -> Json:
    """Return the container spec of the model, with the routes of the prediction server.

    Its arguments record the trust in the model's author; a run trusts the model of its own job.
    """
    return {
        "imageUri": image,
        "command": ["python", "-m", "trainer.serve"],
        **({"args": flags} if (flags := trust.flags()) else {}),
        "ports": [{"containerPort": SERVING_PORT}],
        "healthRoute": "/health",
        "predictRoute": "/predict",
    }


def upload_version(
    api: VertexApi,
    *,
    display_name: str,
    artifact_uri: str,
    image: str,
    trust: Trust = STRANGER,
    labels: Mapping[str, str],
    aliases: Sequence[str] = (),
) -> ResourceName:
    """Upload a SavedModel as a version of the model with a display name; return the version.

    The first version creates the model and is its default. A later one becomes the default if
    `aliases` has `default`; the former default is then `previous`. `trust` is in the author.
    """
    parent = find_model(api, display_name)
    model: Json = {
        "displayName": display_name,
        "artifactUri": artifact_uri,
        "containerSpec": serving_container(image, trust=trust),
        "labels": dict(labels),
    }
    if own_aliases := [alias for alias in aliases if alias != DEFAULT]:
        model["versionAliases"] = own_aliases
    operation = upload_model(api, model, parent=parent)
    response = api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    version = ResourceName.from_name(response["model"]).with_version(response["modelVersionId"])
    if parent and DEFAULT in aliases:
        set_default(api, version, cause=UPLOADED)
    return version
