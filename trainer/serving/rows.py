"""Calls of a signature with instances in TensorFlow Serving's row form.

An instance is the value of the only input, or an object of values by input; a prediction the value
of the only output, or an object of values by output.
https://www.tensorflow.org/tfx/serving/api_rest#predict_api
"""

import base64
import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.base64_text import texts_as_bytes
from trainer.errors import InstanceError
from trainer.serving.tensors import call_with_tensors, check_finite

Specs = Mapping[str, tf.TensorSpec]


def find_signature(loaded: Any, name: str) -> Any:
    """Return a signature of a loaded model.

    Raises:
        InstanceError: there is none of this name; lists those there are.
    """
    if name not in loaded.signatures:
        names = ", ".join(
            sorted(known for known in loaded.signatures if not known.startswith("__"))
        )
        raise InstanceError(f"the model has no signature {name!r}; it has {names}")
    return loaded.signatures[name]


def predict_rows(signature: Any, instances: list[Any]) -> list[Any]:
    """Return a prediction for each instance; instances of equal shapes are predicted together."""
    specs = dict(sorted(signature.structured_input_signature[1].items()))
    groups: dict[Any, list[int]] = {}
    rows = [_parse(index, instance, specs) for index, instance in enumerate(instances)]
    for index, row in enumerate(rows):
        groups.setdefault(tuple(value.shape for value in row.values()), []).append(index)
    predictions: list[Any] = [None] * len(instances)
    for indices in groups.values():
        columns = {name: np.stack([rows[index][name] for index in indices]) for name in specs}
        outputs = call_with_tensors(signature, columns)
        check_finite(outputs, indices)
        for index, prediction in zip(indices, _as_predictions(outputs, len(indices)), strict=True):
            predictions[index] = prediction
    return predictions


def _as_predictions(outputs: Mapping[str, np.ndarray], num_rows: int) -> list[Any]:
    lists = {name: _as_json(name, output) for name, output in outputs.items()}
    for name, values in lists.items():
        if len(values) != num_rows:
            raise InstanceError(
                f"the output {name!r} has {len(values)} rows for {num_rows} instances"
            )
    if len(lists) == 1:
        return next(iter(lists.values()))
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _parse(index: int, instance: Any, specs: Specs) -> dict[str, np.ndarray]:
    values = instance
    if not isinstance(instance, dict) or (set(instance) == {"b64"} and "b64" not in specs):
        values = dict.fromkeys(specs, instance) if len(specs) == 1 else None
    if values is None or set(values) != set(specs):
        raise InstanceError(f"instance {index}: it must hold {shown(specs)}")
    try:
        return {name: _array(name, values[name], spec) for name, spec in specs.items()}
    except ValueError as error:
        raise InstanceError(f"instance {index}: {error}") from error


def _array(name: str, value: Any, spec: tf.TensorSpec) -> np.ndarray:
    try:
        array = _as_array(value, spec.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error
    if not spec.shape[1:].is_compatible_with(array.shape):
        raise ValueError(f"{name} has shape {array.shape}, expected {tuple(spec.shape[1:])}")
    return array


def _as_array(value: Any, dtype: tf.DType) -> np.ndarray:
    if dtype == tf.string:
        array = np.asarray(texts_as_bytes(value), object)
        if not all(isinstance(text, bytes) for text in array.flat):
            raise ValueError("its lists have different lengths")
        return array
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError("its lists have different lengths") from error
    kinds = "b" if dtype == tf.bool else "iu" if dtype.is_integer else "iuf"
    if array.size and array.dtype.kind not in kinds:
        raise ValueError(f"it must hold values of type {dtype.name}")
    if dtype.is_integer and array.size and not dtype.min <= array.min() <= array.max() <= dtype.max:
        raise ValueError(f"it must hold values of type {dtype.name}: {dtype.min} to {dtype.max}")
    return array.astype(dtype.as_numpy_dtype)


def _as_json(name: str, array: np.ndarray) -> list[Any]:
    if array.dtype != object:
        return array.tolist()
    is_binary = name.endswith("_bytes")
    return _texts(array.tolist(), is_binary=is_binary)


def _texts(value: Any, *, is_binary: bool) -> Any:
    if isinstance(value, list):
        return [_texts(item, is_binary=is_binary) for item in value]
    if not is_binary:
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return {"b64": base64.b64encode(value).decode()}


def shown(specs: Specs) -> str:
    """Return the names, types and shapes of tensors, without the batch dimension."""
    return ", ".join(
        f"{name!r} ({spec.dtype.name} {'?' if spec.shape.rank is None else list(spec.shape[1:])})"
        for name, spec in specs.items()
    )
