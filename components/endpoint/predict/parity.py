"""Predictions of an endpoint, with their latency, and their comparison with offline ones."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from components.errors import StepError
from components.shared.text.value_text import shown_value
from components.shared.vertex.api import PREDICT_TIMEOUT_SECONDS, VertexApi
from trainer import Json

TOLERANCE = 1e-5
# Vertex AI's limit is 1,500,000 bytes; the difference is for the JSON around the instances.
MAX_REQUEST_BYTES = 1_400_000
_SEPARATOR = len(", ")


def check_parity(online: Sequence[Any], offline: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the largest difference between a number online and offline.

    Predictions are any JSON. Texts, whole numbers and the lengths of lists must be the same;
    other numbers may differ by 1e-5, relative to the number where it is above 1. Further fields
    online, such as the key of an instance, are ignored. `offline` are the golden predictions;
    the true labels are for the message.

    Raises:
        StepError: The number of predictions or something in them differs; names the first, or the
            number with the largest difference.
    """
    if len(online) != len(offline):
        raise StepError(
            f"the endpoint returned {len(online)} predictions for {len(offline)} instances"
        )
    worst, message = 0.0, ""
    for index, (ours, golden) in enumerate(zip(online, offline, strict=True)):
        instance = f"instance {index} (true label {shown_value(labels[index])})"
        for name, difference, numbers in differences(ours, golden, instance=instance):
            if difference > worst:
                worst = difference
                message = (
                    f"{instance}: {name} is {numbers}; the difference {worst:.3g} exceeds "
                    f"{TOLERANCE:g}"
                )
    if worst > TOLERANCE:
        raise StepError(message)
    return worst


def differences(
    online: Any, offline: Any, *, instance: str, name: str = "the prediction"
) -> Iterator[tuple[str, float, str]]:
    """Yield the name, the relative difference and both values of each number; nan is infinite.

    Raises:
        StepError: Something else differs.
    """
    if isinstance(offline, dict) and isinstance(online, dict):
        if missing := sorted(set(offline) - set(online)):
            raise StepError(f"{instance}: {missing[0]!r} is only in the prediction offline")
        for field, value in offline.items():
            yield from differences(online[field], value, instance=instance, name=field)
    elif isinstance(offline, list) and isinstance(online, list):
        if len(online) != len(offline):
            raise StepError(
                f"{instance}: {name} has {len(online)} values online, {len(offline)} offline"
            )
        for index, (ours, golden) in enumerate(zip(online, offline, strict=True)):
            yield from differences(ours, golden, instance=instance, name=f"{name}[{index}]")
    elif isinstance(offline, float) and _is_number(online):
        difference = abs(online - offline) / max(1.0, abs(offline))
        shown = f"{online:.7g} online and {offline:.7g} offline"
        yield name, math.inf if math.isnan(difference) else difference, shown
    elif online != offline or isinstance(online, bool) != isinstance(offline, bool):
        raise StepError(f"{instance}: {name} is {online!r:.200} online, {offline!r:.200} offline")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class PredictResponse:
    """Response of an endpoint; `milliseconds` is from request to parsed JSON, with retries."""

    predictions: list[Json]
    milliseconds: float
    model_version: str


def num_fitting(instances: Sequence[Any]) -> int:
    """Return how many of the first instances fit into one request."""
    sizes = accumulate(len(json.dumps(instance)) + _SEPARATOR for instance in instances)
    return sum(size <= MAX_REQUEST_BYTES for size in sizes)


def request_predictions(api: VertexApi, endpoint: str, instances: Sequence[Any]) -> PredictResponse:
    """Send instances to an endpoint (`projects/…/endpoints/ID`).

    Raises:
        VertexError: The endpoint refused the request, or stayed unavailable.
    """
    started = time.perf_counter()
    body = api.post(
        f"{endpoint}:predict",
        {"instances": list(instances)},
        timeout_seconds=PREDICT_TIMEOUT_SECONDS,
    )
    seconds = time.perf_counter() - started
    return PredictResponse(
        predictions=list(body.get("predictions", [])),
        milliseconds=seconds * 1000,
        model_version=str(body.get("modelVersionId", "")),
    )
