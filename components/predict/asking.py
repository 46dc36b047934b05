"""Prediction requests to an endpoint: timed, and tried again while it is unavailable."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.vertex_api import VertexApi, VertexError

RETRY_DELAYS_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)

Json = dict[str, Any]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """An endpoint's answer and how long it took, from request to parsed JSON."""

    predictions: list[Json]
    milliseconds: float
    model_version: str


def request_predictions(
    api: VertexApi,
    endpoint: str,
    instances: Sequence[Any],
    *,
    retry_delays_seconds: Sequence[float] = RETRY_DELAYS_SECONDS,
) -> Answer:
    """Sends instances to `endpoint` (`projects/…/endpoints/ID`); UNAVAILABLE is tried again.

    Raises:
        VertexError: any other error, or UNAVAILABLE once more after the last delay.
    """
    for delay_seconds in retry_delays_seconds:
        try:
            return _ask(api, endpoint, instances)
        except VertexError as error:
            if error.status != "UNAVAILABLE":
                raise
            logger.warning("%s; asking again in %g s", error, delay_seconds)
        time.sleep(delay_seconds)
    return _ask(api, endpoint, instances)


def _ask(api: VertexApi, endpoint: str, instances: Sequence[Any]) -> Answer:
    started = time.perf_counter()
    body = api.post(f"{endpoint}:predict", {"instances": list(instances)})
    seconds = time.perf_counter() - started
    return Answer(
        predictions=list(body.get("predictions", [])),
        milliseconds=seconds * 1000,
        model_version=str(body.get("modelVersionId", "")),
    )
