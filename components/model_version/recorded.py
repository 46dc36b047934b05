"""Record of an uploaded version: one model per display name, evaluation, description, alias.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models.evaluations
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from components.model_version.history import UPLOADED
from components.model_version.registry import (
    DEFAULT,
    add_alias,
    describe_version,
    find_model,
    set_default,
)
from components.shared.text.json_object import present
from components.shared.vertex.api import VertexApi
from components.shared.vertex.creations import upload_model
from components.shared.vertex.labels import CHALLENGER
from components.shared.vertex.resource_name import ResourceName
from trainer import Json
from trainer.config.trust import OWN, STRANGER, Trust

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
SCHEMA = "gs://google-cloud-aiplatform/schema/modelevaluation/{}_metrics_1.0.0.yaml"
# Vertex AI's names of the metrics that it knows.
CLASS_METRICS = {"auc": "auRoc", "pr_auc": "auPrc", "loss": "logLoss"}
NUMBER_METRICS = {"rmse": "rootMeanSquaredError", "mae": "meanAbsoluteError", "r2": "rSquared"}
REGRESSION = "Regression"
NUM_PAIRS = 15
SERVING_PORT = 8080


def record_evaluation(
    api: VertexApi, uploaded: ResourceName, content: Json, *, verdict: str, reasons: str, state: str
) -> ResourceName:
    """Attach the content of evaluation.json to a version, and the verdict as its description.

    A version whose model another run created at the same time is moved to that one first; return
    the version.
    """
    evaluation = model_evaluation(content, display_name="test split", verdict=verdict)
    version = in_oldest_model(api, uploaded)
    api.post(f"{version.name}/evaluations:import", {"modelEvaluation": evaluation})
    describe_version(api, version, reasons)
    if state == CHALLENGER:
        add_alias(api, version, CHALLENGER)
    return version


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
    answer = api.wait(operation)
    moved = ResourceName.from_name(answer["model"]).with_version(answer["modelVersionId"])
    api.wait(api.delete(version.unversioned))
    logger.warning("another run created %s meanwhile: %s became %s", oldest, version, moved)
    return moved


def model_evaluation(content: Json, *, display_name: str, verdict: str) -> Json:
    """Return a ModelEvaluation with Vertex AI's metrics, and our own in its metadata."""
    is_number = content["label_kind"] == REGRESSION
    names = NUMBER_METRICS if is_number else CLASS_METRICS
    measured = content["metrics"]
    metrics: dict[str, Any] = {
        vertex_name: measured[name]
        for name, vertex_name in names.items()
        if measured.get(name) is not None
    }
    pairs, labels = content.get("pairs", ()), content.get("labels", ())
    if content["confusion"]:
        metrics["confusionMatrix"] = {
            "annotationSpecs": [{"displayName": label} for label in labels],
            "rows": content["confusion"],
        }
    return {
        "displayName": display_name,
        "metricsSchemaUri": SCHEMA.format("regression" if is_number else "classification"),
        "metrics": metrics,
        "metadata": {
            "verdict": verdict,
            **{name: content[name] for name in ("checks", "gain", "champion", "baseline")},
            **{name: content[name] for name in ("slices", "num_examples")},
            "all_metrics": measured,
            "confused": [[labels[a], labels[b], count] for a, b, count in pairs[:NUM_PAIRS]],
        },
    }


def serving_container(image: str, *, trust: Trust = OWN) -> Json:
    """Return the container spec of the model, with the routes of the prediction server.

    Its arguments record the trust in the model's author; a run trusts the model of its own job.
    """
    return present(
        {
            "imageUri": image,
            "command": ["python", "-m", "trainer.serve"],
            "args": trust.flags(),
            "ports": [{"containerPort": SERVING_PORT}],
            "healthRoute": "/health",
            "predictRoute": "/predict",
        }
    )


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
    model = present(
        {
            "displayName": display_name,
            "artifactUri": artifact_uri,
            "containerSpec": serving_container(image, trust=trust),
            "labels": dict(labels),
            "versionAliases": [alias for alias in aliases if alias != DEFAULT],
        }
    )
    operation = upload_model(api, model, parent=parent)
    response = api.wait(operation)
    version = ResourceName.from_name(response["model"]).with_version(response["modelVersionId"])
    if parent and DEFAULT in aliases:
        set_default(api, version, cause=UPLOADED)
    return version
