"""Calls of a signature with instances in TensorFlow Serving's row form.

An instance is the value of the only input, or an object of values by input; a prediction the value
of the only output, or an object of values by output.
https://www.tensorflow.org/tfx/serving/api_rest#predict_api
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.errors import InstanceError
from trainer.request_values import as_array, bytes_as_json, is_example

Specs = Mapping[str, tf.TensorSpec]


def make_zeros(specs: Specs) -> dict[str, tf.Tensor]:
    """Return tensors of zeros, of the least shapes that the specs allow."""
    return {
        name: tf.zeros([size or 1 for size in spec.shape], spec.dtype)
        for name, spec in specs.items()
    }


def find_signature(loaded: Any, name: str) -> Any:
    """Return a signature of a loaded model; InstanceError lists those there are."""
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
        outputs = _call(signature, columns)
        check_finite(outputs, indices)
        for index, prediction in zip(indices, _as_predictions(outputs, len(indices)), strict=True):
            predictions[index] = prediction
    return predictions


def _as_predictions(outputs: Mapping[str, np.ndarray], num_rows: int) -> list[Any]:
    lists = {
        name: bytes_as_json(output.tolist(), is_binary=name.endswith("_bytes"))
        if output.dtype == object
        else output.tolist()
        for name, output in outputs.items()
    }
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
    if not isinstance(instance, dict) or is_example(instance, specs):
        values = dict.fromkeys(specs, instance) if len(specs) == 1 else None
    if values is None or set(values) != set(specs):
        raise InstanceError(f"instance {index}: it must hold {shown(specs)}")
    arrays, name = dict[str, np.ndarray](), ""
    try:
        for name, spec in specs.items():
            arrays[name] = _as_array(values[name], spec.dtype)
            shape = arrays[name].shape
            if not spec.shape[1:].is_compatible_with(shape):
                raise ValueError(f"it has shape {shape}, expected {tuple(spec.shape[1:])}")
    except (ValueError, TypeError, OverflowError) as error:
        raise InstanceError(f"instance {index}: {name}: {error}") from error
    return arrays


def _as_array(value: Any, dtype: tf.DType) -> np.ndarray:
    array = as_array(value, holds_texts=dtype == tf.string)
    if dtype == tf.string:
        return array
    kinds = "iu" if dtype.is_integer else "iuf"
    if dtype == tf.bool:
        kinds = "b"
    if array.size and array.dtype.kind not in kinds:
        raise ValueError(f"it must hold values of type {dtype.name}")
    if dtype.is_integer and array.size and not dtype.min <= array.min() <= array.max() <= dtype.max:
        raise ValueError(f"it must hold values of type {dtype.name}: {dtype.min} to {dtype.max}")
    with np.errstate(over="ignore"):
        typed = array.astype(dtype.as_numpy_dtype)
    if dtype.is_floating and np.isinf(typed).any():
        raise ValueError(f"it has a number that is too large for {dtype.name}")
    return typed


def shown(specs: Specs) -> str:
    """Return the names, types and shapes of tensors, without the batch dimension."""
    return ", ".join(
        f"{name!r} ({spec.dtype.name} {'?' if spec.shape.rank is None else list(spec.shape[1:])})"
        for name, spec in specs.items()
    )


def _call(function: Any, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a signature by name; InstanceError if it does not take the inputs."""
    try:
        outputs = function(**{name: tf.constant(column) for name, column in columns.items()})
    except (
        tf.errors.InvalidArgumentError,
        tf.errors.UnimplementedError,
        TypeError,
        ValueError,
    ) as error:
        raise InstanceError(f"the model rejects the instances: {_reason(error)}") from error
    return {name: output.numpy() for name, output in outputs.items()}


def check_finite(outputs: Mapping[str, np.ndarray], indices: Sequence[int] | range) -> None:
    """Raise InstanceError if a number of predictions is not finite, which JSON cannot say.

    It names the instance, of which `indices` has the number for each row.
    """
    for row, reason in find_not_finite(outputs):
        raise InstanceError(f"instance {indices[row]}: {reason}")


def find_not_finite(outputs: Mapping[str, np.ndarray]) -> Iterator[tuple[int, str]]:
    """Return the rows of outputs with a number that is not finite, and what it is."""
    for name, output in outputs.items():
        if output.dtype.kind == "f" and not np.isfinite(output).all():
            wrong = ~np.isfinite(output.reshape(len(output), -1))
            for row in np.flatnonzero(wrong.any(axis=1)):
                value = output.reshape(len(output), -1)[row][wrong[row]][0]
                yield int(row), f"its prediction is not finite: {name!r} is {value}"


def _reason(error: Exception) -> str:
    """Return an error's last line without node names; the first lines are a traceback."""
    lines = [line.strip() for line in str(getattr(error, "message", error)).splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith("[[")), "")
