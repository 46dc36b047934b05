"""The step: sends the golden instances to an endpoint, compares and measures."""

import json
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from components.endpoint.predict.parity import PredictResponse, check_parity, request_predictions
from components.endpoint.traffic import WHOLE
from components.errors import StepError
from components.shared.text.value_text import cut, shown_value
from components.shared.vertex.api import VertexApi
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

if TYPE_CHECKING:
    from kfp.dsl import Metrics

MISS_PROBABILITY = 1e-6

logger = logging.getLogger(__name__)


def predict_golden(
    api: VertexApi,
    golden: Json,
    *,
    endpoint: str,
    version: ResourceName,
    metrics: "Metrics",
    table_path: str,
    values: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Send the golden instances to an endpoint, and fail unless it repeats the predictions.

    All instances are sent in one request, then each alone. The batch is first, so that the
    single requests do not measure the model's first call. `golden` has instances, offline
    predictions and true labels, as `evaluate` wrote them; `version` has all traffic. `metrics`
    receives `values`, the latencies and the largest difference, the file at `table_path` the
    predictions in Markdown.

    Raises:
        StepError: A prediction differs, or another version made it.
        VertexError: A request failed.
    """
    instances, offline, labels = golden["instances"], golden["predictions"], golden["labels"]
    batch = request_predictions(api, endpoint, instances)
    _check_source(batch, version)
    logger.info("%s, model version %s", endpoint, batch.model_version or "unknown")
    table = format_table(batch.predictions, labels)
    logger.info("%s", table)
    batch_difference = check_parity(batch.predictions, offline, labels)
    singles = [request_predictions(api, endpoint, [instance]) for instance in instances]
    for single in singles:
        _check_source(single, version)
    alone = [prediction for response in singles for prediction in response.predictions]
    difference = max(batch_difference, check_parity(alone, offline, labels))
    values = {**values, **_measurements(batch, singles, difference)}
    logger.info(
        "predictions are as offline (largest difference: %.2g); the latency of "
        "one instance is %.1f ms (median), %.1f ms (maximum)",
        values["max_difference"],
        values["latency_ms_median"],
        values["latency_ms_max"],
    )
    for name, value in values.items():
        metrics.log_metric(name, value)
    Path(metrics.path).parent.mkdir(parents=True, exist_ok=True)
    Path(metrics.path).write_text(json.dumps(values, indent=2))
    Path(table_path).parent.mkdir(parents=True, exist_ok=True)
    Path(table_path).write_text(f"```\n{table}\n```\n")


def _check_source(response: PredictResponse, version: ResourceName) -> None:
    if response.model_version not in ("", version.version):
        raise StepError(
            f"version {response.model_version} answers in place of version {version.version}: the"
            " traffic of the endpoint was moved meanwhile, by another run or by hand"
        )


def check_version(
    api: VertexApi,
    endpoint: str,
    version: ResourceName,
    golden: Mapping[str, Any],
    *,
    percentage: int,
) -> None:
    """Send the golden instances to an endpoint until a version with `percentage` traffic responds.

    Raises:
        StepError: Its predictions differ from the golden ones.
        TimeoutError: It responded to none of the requests; by chance, one in a million.
    """
    for _ in range(num_requests(percentage)):
        response = request_predictions(api, endpoint, golden["instances"])
        if response.model_version == version.version:
            check_parity(response.predictions, golden["predictions"], golden["labels"])
            return
    raise TimeoutError(
        f"{version} has {percentage} % of the traffic of {endpoint}, but responded to none of "
        f"{num_requests(percentage)} requests"
    )


def num_requests(percentage: int) -> int:
    """Return a number of requests that all miss this share once in a million times."""
    if percentage >= WHOLE:
        return 1
    return math.ceil(math.log(MISS_PROBABILITY) / math.log(1 - percentage / WHOLE))


def _measurements(
    batch: PredictResponse, singles: Sequence[PredictResponse], difference: float
) -> dict[str, float]:
    latencies = [response.milliseconds for response in singles]
    return {
        "num_requests": 1 + len(singles),
        "latency_ms_median": statistics.median(latencies),
        "latency_ms_max": max(latencies),
        "batch_latency_ms": batch.milliseconds,
        "max_difference": difference,
    }


def format_table(predictions: Sequence[Any], labels: Sequence[Any]) -> str:
    """Return a line for each prediction, with the true label of golden.json beside it."""
    rows = [
        ("index", "prediction", "true label"),
        *zip(
            map(str, range(len(labels))),
            map(_shown, predictions),
            map(shown_value, labels),
            strict=False,
        ),
    ]
    width = max(len(prediction) for _, prediction, _ in rows)
    return "\n".join(
        f"{index:>5}  {prediction:<{width}}  {label}" for index, prediction, label in rows
    )


def _shown(prediction: Any) -> str:
    """Return the class and its probability, the labels, or the value; else the JSON."""
    match prediction:
        case {"label": label, "probabilities": [_, *_] as probabilities}:
            return f"{label} ({max(probabilities):.6f})"
        case {"labels": labels}:
            return shown_value(labels)
        case {"value": value}:
            return shown_value(value)
    return cut(json.dumps(prediction))
