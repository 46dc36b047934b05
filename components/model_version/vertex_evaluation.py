"""Evaluation of a model version in Vertex AI's form, from the content of evaluation.json.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models.evaluations
"""

from typing import Any

from trainer import Json

SCHEMA = "gs://google-cloud-aiplatform/schema/modelevaluation/{}_metrics_1.0.0.yaml"
# Vertex AI's names of the metrics that it knows.
CLASS_METRICS = {"auc": "auRoc", "pr_auc": "auPrc", "loss": "logLoss"}
NUMBER_METRICS = {"rmse": "rootMeanSquaredError", "mae": "meanAbsoluteError", "r2": "rSquared"}
REGRESSION = "Regression"


def model_evaluation(content: Json, *, display_name: str, verdict: str) -> Json:
    """Return a ModelEvaluation with Vertex AI's metrics, and our own in its metadata."""
    is_number = content["label_kind"] == REGRESSION
    names = NUMBER_METRICS if is_number else CLASS_METRICS
    found = content["metrics"]
    metrics: dict[str, Any] = {
        theirs: found[ours] for ours, theirs in names.items() if found.get(ours) is not None
    }
    if content["confusion"]:
        metrics["confusionMatrix"] = {
            "annotationSpecs": [{"displayName": label} for label in content["labels"]],
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
            "all_metrics": found,
        },
    }
