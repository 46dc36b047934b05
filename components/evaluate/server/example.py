"""Raw features as the serialized tf.train.Example of a request, written without TensorFlow."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from components.prepare_examples.tfrecords.wire import (
    BYTES_LIST,
    FEATURES,
    FLOAT_LIST,
    INT64_LIST,
    LIST_VALUES,
    entry,
    sized,
    varint,
)
from trainer import Json


def as_example(features: Mapping[str, Any]) -> Json:
    """Return the instance {"b64": …} of an example's raw features, given as arrays."""
    entries = b"".join(_entry(name, np.asarray(column)) for name, column in features.items())
    return {"b64": base64.b64encode(sized(FEATURES, entries)).decode("ascii")}


def _entry(name: str, values: np.ndarray[Any, Any]) -> bytes:
    if values.dtype.kind == "f":
        return entry(name, FLOAT_LIST, sized(LIST_VALUES, values.astype("<f4").tobytes()))
    if values.dtype == np.uint8:  # pixels
        return entry(name, BYTES_LIST, sized(LIST_VALUES, values.tobytes()))
    if values.dtype.kind in "iu":
        numbers = b"".join(map(varint, values.ravel().tolist()))
        return entry(name, INT64_LIST, sized(LIST_VALUES, numbers))
    texts = b"".join(sized(LIST_VALUES, text) for text in values.ravel().tolist())
    return entry(name, BYTES_LIST, texts)
