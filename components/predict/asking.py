"""Prediction requests to an endpoint, timed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.vertex.api import PREDICT_TIMEOUT_SECONDS, VertexApi
from trainer.json_types import Json


@dataclass(frozen=True)
class Answer:
    """An endpoint's answer and how long it took, from request to parsed JSON, retries included."""

    predictions: list[Json]
    milliseconds: float
    model_version: str


def request_predictions(api: VertexApi, endpoint: str, instances: Sequence[Any]) -> Answer:
    """Send instances to `endpoint` (`projects/…/endpoints/ID`).

    Raises:
        VertexError: the endpoint refused, or stayed unavailable.
    """
    started = time.perf_counter()
    body = api.post(
        f"{endpoint}:predict",
        {"instances": list(instances)},
        timeout_seconds=PREDICT_TIMEOUT_SECONDS,
    )
    seconds = time.perf_counter() - started
    return Answer(
        predictions=list(body.get("predictions", [])),
        milliseconds=seconds * 1000,
        model_version=str(body.get("modelVersionId", "")),
    )
