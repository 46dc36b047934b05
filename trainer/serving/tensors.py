"""Calls of a SavedModel's signature with tensors from a request."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.errors import InstanceError


def call_with_tensors(function: Any, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a signature by name.

    Raises:
        InstanceError: the names, types or shapes differ from its inputs', or it rejects values.
    """
    specs = function.structured_input_signature[1]
    if set(columns) != set(specs):
        raise InstanceError(f"the inputs are {', '.join(columns)}; send {', '.join(sorted(specs))}")
    for name, spec in specs.items():
        column = columns[name]
        dtype = tf.as_dtype(column.dtype)
        if dtype != spec.dtype or not spec.shape.is_compatible_with(column.shape):
            raise InstanceError(
                f"the input {name!r} is {dtype.name} {list(column.shape)}, expected"
                f" {spec.dtype.name} {spec.shape.as_list() if spec.shape.rank is not None else '?'}"
            )
    try:
        outputs = function(**{name: tf.constant(column) for name, column in columns.items()})
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
        raise InstanceError(f"the model rejects the instances: {_reason(error)}") from error
    return {name: output.numpy() for name, output in outputs.items()}


def check_finite(outputs: Mapping[str, np.ndarray], indices: Sequence[int] | range) -> None:
    """Check that all numbers of predictions are finite, which JSON cannot say otherwise.

    Args:
        outputs: The outputs of a signature by name, [rows, ...].
        indices: The index of each row's instance, for the error.

    Raises:
        InstanceError: one is not; names its instance.
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


def _reason(error: tf.errors.OpError) -> str:
    """Return an error's last line without node names; the first lines are a traceback."""
    lines = [line.strip() for line in error.message.splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith("[[")), "")
