"""The step itself: ask the endpoint, show, compare, measure."""

import json
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.endpoint.traffic import WHOLE
from components.predict.asking import Answer, request_predictions
from components.predict.parity import check_parity
from components.vertex.api import VertexApi
from components.vertex.resource_name import ResourceName
from trainer.json_types import Json

if TYPE_CHECKING:
    from kfp.dsl import Metrics


ONE_IN_A_MILLION = 1e-6


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckedEndpoint:
    """An endpoint that predicts as the model did offline: latencies in ms, and what it said."""

    measurements: dict[str, float]
    table: str


def predict_golden(
    api: VertexApi,
    *,
    endpoint: str,
    golden_path: str,
    metrics: "Metrics",
    table_path: str,
) -> None:
    """Sends the golden instances to an endpoint, and fails unless it repeats the predictions.

    Args:
        api: the endpoint's.
        endpoint: its resource name, `projects/…/locations/…/endpoints/ID`.
        golden_path: instances, offline predictions and true labels, as `evaluate` writes them.
        metrics: receives the latencies and the largest difference, as metadata and as a file.
        table_path: the Markdown file to write the table of predictions to.

    Raises:
        ParityError: a prediction differs.
        VertexError: the endpoint answered with an error.
    """
    golden = json.loads(Path(golden_path).read_text())
    checked = check_endpoint(api, endpoint, golden)
    values = checked.measurements
    for name, value in values.items():
        metrics.log_metric(name, value)
    Path(metrics.path).parent.mkdir(parents=True, exist_ok=True)
    Path(metrics.path).write_text(json.dumps(values, indent=2))
    Path(table_path).parent.mkdir(parents=True, exist_ok=True)
    Path(table_path).write_text(f"```\n{checked.table}\n```\n")


def check_endpoint(api: VertexApi, endpoint: str, golden: Mapping[str, Any]) -> CheckedEndpoint:
    """Asks for all golden instances at once, then for each alone; answers the measurements.

    The batch goes first, so that the single requests do not measure the model's first call.
    """
    instances, offline, labels = golden["instances"], golden["predictions"], golden["labels"]
    batch = request_predictions(api, endpoint, instances)
    logger.info("%s, model version %s", endpoint, batch.model_version or "unknown")
    table = format_table(batch.predictions, labels)
    logger.info("%s", table)
    differences = [check_parity(batch.predictions, offline, labels)]
    singles = [request_predictions(api, endpoint, [instance]) for instance in instances]
    alone = [prediction for answer in singles for prediction in answer.predictions]
    differences.append(check_parity(alone, offline, labels))
    values = _measurements(batch, singles, max(differences))
    logger.info(
        "as offline: the largest difference of a probability is %.2g; one instance takes %.1f ms "
        "(median), %.1f ms at most",
        values["max_probability_difference"],
        values["latency_ms_median"],
        values["latency_ms_max"],
    )
    return CheckedEndpoint(values, table)


def check_version(
    api: VertexApi,
    endpoint: str,
    version: ResourceName,
    golden: Mapping[str, Any],
    *,
    percentage: int,
) -> None:
    """Ask an endpoint until a version that gets `percentage` of its traffic has answered.

    Raises:
        ParityError: its predictions differ from the golden ones.
        TimeoutError: it has not answered any of so many requests that this is no chance.
    """
    for _ in range(num_requests(percentage)):
        answer = request_predictions(api, endpoint, golden["instances"])
        if answer.model_version == version.version:
            check_parity(answer.predictions, golden["predictions"], golden["labels"])
            return
    raise TimeoutError(
        f"{version}, which gets {percentage} % of the traffic of {endpoint}, has answered none of "
        f"{num_requests(percentage)} requests"
    )


def num_requests(percentage: int) -> int:
    """Return after how many requests one in a million times none has met this share."""
    if percentage >= WHOLE:
        return 1
    return math.ceil(math.log(ONE_IN_A_MILLION) / math.log(1 - percentage / WHOLE))


def format_table(predictions: Sequence[Json], labels: Sequence[str]) -> str:
    """The predictions as a table in plain text."""
    lines = [f"{'index':>5}  {'class':<10} {'probability':>11}  {'true label':<10}  ok"]
    for index, (prediction, label) in enumerate(zip(predictions, labels, strict=False)):
        predicted = str(prediction.get("label", prediction.get("class")))
        probability = max(prediction.get("probabilities") or [float("nan")])
        mark = "yes" if predicted == label else "no"
        lines.append(f"{index:>5}  {predicted:<10} {probability:>11.6f}  {label:<10}  {mark}")
    return "\n".join(lines)


def _measurements(batch: Answer, singles: Sequence[Answer], difference: float) -> dict[str, float]:
    latencies = [answer.milliseconds for answer in singles]
    return {
        "num_requests": 1 + len(singles),
        "latency_ms_median": statistics.median(latencies),
        "latency_ms_max": max(latencies),
        "batch_latency_ms": batch.milliseconds,
        "max_probability_difference": difference,
    }
