"""Bodies of prediction requests and of their responses, in JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import orjson

from trainer.serving import strict_json
from trainer.serving.http.messages import RequestError, Response

_CONTAINERS = (dict, list)


# Those of https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.endpoints/predict
# and of TensorFlow Serving; the models of Trainyard have no parameters.
KEYS = ("instances", "parameters", "signature_name")


@dataclass(frozen=True)
class InstancesRequest:
    """Instances to predict by a signature of the model."""

    instances: list[Any]
    signature: str = "serving_default"


def parse_instances(body: bytes) -> InstancesRequest:
    """Return the instances of a request's body; RequestError if it is invalid."""
    try:
        content = parse_json(body)
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {error}") from error
    instances = content.get("instances") if isinstance(content, dict) else None
    if isinstance(content, dict) and "inputs" in content:
        raise RequestError(
            400,
            'the key "inputs" (a request in columns) is not supported; send {"instances": [...]} '
            "with one instance for each prediction",
        )
    if not isinstance(instances, list) or not instances:
        raise RequestError(400, 'the body must be {"instances": [...]} with one instance or more')
    if unknown := sorted(content.keys() - KEYS):
        raise RequestError(400, f"unknown key {unknown[0]!r:.80}; allowed are {', '.join(KEYS)}")
    signature = content.get("signature_name") or InstancesRequest.signature
    if not isinstance(signature, str):
        raise RequestError(400, f"signature_name is {signature!r:.80}; it must be a text")
    return InstancesRequest(instances, signature)


def parse_json(data: bytes) -> Any:
    """Parse strict JSON, many times as fast as strict_json, which decides about doubtful texts.

    An integer of more than 64 bits becomes a float.

    Raises:
        ValueError: as strict_json.parse.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return strict_json.parse(data)
    if not _has_unique_keys(value, data.count(b":")):
        strict_json.parse(data)  # its value has integers of any size
    return value


def parse_many(texts: Sequence[bytes]) -> list[Any]:
    """Parse several texts as `parse_json` does each; ValueError if one is invalid."""
    try:
        values = [orjson.loads(text) for text in texts]
    except orjson.JSONDecodeError:
        return [parse_json(text) for text in texts]
    if _has_unique_keys(values, sum(text.count(b":") for text in texts)):
        return values
    return [parse_json(text) for text in texts]


def _has_unique_keys(value: Any, num_colons: int) -> bool:
    """Return True if the parsed value has a key for each colon of its text.

    Then no key occurred twice. Texts with colons, such as times, give False, too.
    """
    level = [value] if type(value) in _CONTAINERS else []
    while num_colons and level:
        num_colons -= sum(len(item) for item in level if type(item) is dict)
        items = chain.from_iterable(item.values() if type(item) is dict else item for item in level)
        level = [item for item in items if type(item) in _CONTAINERS] if num_colons else []
    return not num_colons


# Of a user's hook: keys that are numbers, values of NumPy.
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def predict_requests(predictor: Any, requests: Sequence[InstancesRequest]) -> list[Response]:
    """Return a response to each request of one signature, from one call of a predictor."""
    instances = list(chain.from_iterable(request.instances for request in requests))
    predictions = iter(predictor.predict(instances, requests[0].signature))
    parts = (list(islice(predictions, len(request.instances))) for request in requests)
    return [Response(body=orjson.dumps({"predictions": part}, option=_OPTIONS)) for part in parts]
