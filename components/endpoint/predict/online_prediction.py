"""Online prediction: requests to an endpoint, with their latency."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from components.shared.vertex.api import PREDICT_TIMEOUT_SECONDS, VertexApi
from trainer import Json

# Vertex AI's limit is 1,500,000 bytes; the difference is for the JSON around the instances.
MAX_REQUEST_BYTES = 1_400_000
_SEPARATOR = len(", ")


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
