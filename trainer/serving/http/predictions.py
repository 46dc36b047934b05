"""Predictions of a batch of requests, as responses."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import orjson

from trainer.serving.http.bodies import InstancesRequest
from trainer.serving.http.messages import Response

# Of a user's hook: keys that are numbers, values of NumPy.
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


class BatchPredictor:
    """Calls a predictor once for the requests of a batch; its call is a `batching.Predict`."""

    def __init__(self, predictor: Any):
        self._predictor = predictor

    def __call__(self, requests: Sequence[InstancesRequest]) -> list[Response]:
        """Return a response to each request; all name the same signature."""
        instances = list(chain.from_iterable(request.instances for request in requests))
        predictions = self._predictor.predict(instances, requests[0].signature)
        responses, at = [], 0
        for request in requests:
            part = predictions[at : at + len(request.instances)]
            responses.append(Response(body=orjson.dumps({"predictions": part}, option=_OPTIONS)))
            at += len(request.instances)
        return responses
