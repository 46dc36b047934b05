"""Checks of the layers that interpret inputs: the values that they get are those they are for."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.training.model.embeddings import replaced_calls

NUM_ROWS = 64
# The deviation of inputs that hardly differ, and a mean and deviation far from 0 and 1.
_CONSTANT, _FAR_MEAN, _FAR_DEVIATION = 0.05, 2.0, 0.5
_MATRIX = 2


@dataclass
class _Call:
    """A call of a layer; without a result if it failed."""

    layer: Any
    values: np.ndarray
    result: np.ndarray | None = None


def layer_problems(model: Any, inputs: Any) -> Iterator[str]:
    """Yield a problem for each layer that gets other values than it is for, in these inputs."""
    import keras

    checks: dict[type, Callable[[_Call], str]] = {
        keras.layers.Embedding: _check_ids,
        keras.layers.Rescaling: _check_range,
        keras.layers.Normalization: _check_range,
    }
    layers = [layer for layer in model._flatten_layers() if type(layer) in checks]
    calls: list[_Call] = []

    def record(layer: Any, values: Any) -> Any:
        calls.append(call := _Call(layer, np.asarray(values)))
        result = type(layer).call(layer, values)
        call.result = np.asarray(result)
        return result

    # An id that is too large fails; what else fails is found by the training.
    with contextlib.suppress(Exception), replaced_calls(layers, record):
        model(inputs, training=False)
    for call in calls:
        if problem := checks[type(call.layer)](call):
            yield f"the layer {call.layer.name} ({type(call.layer).__name__}) {problem}"


def _check_ids(call: _Call) -> str:
    values, size = call.values, call.layer.input_dim
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        broken = values[values != np.round(values)].flat[0]
        return (
            f"gets numbers such as {broken:.4g}, not ids: declare the ids as Category, whose inputs"
            " are the numbers of its values, or use raw_inputs with a lookup layer"
        )
    if values.size and (values.min() < 0 or values.max() >= size):
        return (
            f"gets ids from {values.min():.0f} to {values.max():.0f}, but has input_dim {size}: ids"
            " are from 0 to input_dim - 1"
        )
    return ""


def _check_range(call: _Call) -> str:
    """Return a problem if the values hardly differ any more, or are far from 0."""
    values, result = call.values, call.result
    if result is None or not values.size:
        return ""
    if values.ndim == _MATRIX:
        differs = values.std(axis=0) > 0
        values, result = values[:, differs], result[:, differs]
    axis = 0 if values.ndim == _MATRIX else None
    if not values.size or values.std() == 0:
        return ""
    deviation = float(np.median(result.std(axis=axis)))
    mean = float(np.median(np.abs(result.mean(axis=axis))))
    if deviation >= _CONSTANT and (deviation >= _FAR_DEVIATION or mean <= _FAR_MEAN):
        return ""
    return (
        f"gets values from {values.min():.4g} to {values.max():.4g} and returns"
        f" {result.min():.4g} to {result.max():.4g}, which hardly differ: the inputs are scaled"
        " already, so remove the layer, or let the workload have raw_inputs=True"
    )
