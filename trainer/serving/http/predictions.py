"""Predictions of a batch of requests, as responses."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson

from trainer.serving.http.bodies import InstancesRequest
from trainer.serving.http.messages import Response
from trainer.serving.http.open_inference import TensorRequest, make_response

# Of a user's hook: keys that are numbers, values of NumPy.
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


class BatchPredictor:
    """Calls a predictor once for the requests of a batch; its call is a `batching.Predict`."""

    def __init__(self, predictor: Any):
        self._predictor = predictor

    def __call__(self, form: str, contents: Sequence[Any]) -> list[Response]:
        """Return a response to each content: InstancesRequests of a form, or TensorRequests."""
        del form
        if isinstance(contents[0], InstancesRequest):
            return self._predict_instances(contents)
        return self._predict_tensors(contents)

    def _predict_instances(self, requests: Sequence[InstancesRequest]) -> list[Response]:
        instances = list(chain.from_iterable(one.instances for one in requests))
        predictions = self._predictor.predict(instances, requests[0].signature)
        responses, at = [], 0
        for one in requests:
            part = predictions[at : at + one.num_rows]
            responses.append(Response(body=orjson.dumps({"predictions": part}, option=_OPTIONS)))
            at += one.num_rows
        return responses

    def _predict_tensors(self, requests: Sequence[TensorRequest]) -> list[Response]:
        names = requests[0].inputs
        columns = {name: np.concatenate([one.inputs[name] for one in requests]) for name in names}
        outputs = self._predictor.predict_tensors(columns)
        responses, at = [], 0
        for one in requests:
            rows = slice(at, at + one.num_rows)
            responses.append(make_response(one, {k: v[rows] for k, v in outputs.items()}))
            at += one.num_rows
        return responses
