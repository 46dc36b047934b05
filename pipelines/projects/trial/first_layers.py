"""Checks of the layers that interpret inputs: the values that they get are those they are for.

The range of values behind weights is free: a last layer may bring them to the size of any label.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.training.model.embeddings import replaced_calls

NUM_ROWS = 64
# The deviation of inputs that hardly differ, and a mean and deviation far from 0 and 1.
_CONSTANT, _FAR_MEAN, _FAR_DEVIATION = 0.05, 2.0, 0.5
_MATRIX = 2


@dataclass
class _Call:
    """A call of a layer; without a result if it failed.

    `is_input` is False if weights have a part in the values.
    """

    layer: Any
    values: np.ndarray
    is_input: bool
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
    weights = [variable.value for variable in model.weights]
    calls: list[_Call] = []

    def record(layer: Any, values: Any) -> Any:
        with tape.stop_recording():
            gradients = tape.gradient(values, weights) if values.dtype.is_floating else []
        is_input = all(gradient is None for gradient in gradients)
        calls.append(call := _Call(layer, np.asarray(values), is_input))
        result = type(layer).call(layer, values)
        call.result = np.asarray(result)
        return result

    # An id that is too large fails; what else fails is found by the training.
    tape = tf.GradientTape(persistent=True)
    with contextlib.suppress(Exception), replaced_calls(layers, record), tape:
        tape.watch(weights)
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
    """Return a problem if scaled values hardly differ any more, or are far from 0."""
    values, result = call.values, call.result
    if result is None or not (call.is_input and values.size):
        return ""
    if values.ndim == _MATRIX:
        differs = values.std(axis=0) > 0
        values, result = values[:, differs], result[:, differs]
    axis = 0 if values.ndim == _MATRIX else None
    if not values.size or values.std() == 0:
        return ""
    is_scaled = max(_moments(values, axis)) <= _FAR_MEAN
    mean, deviation = _moments(result, axis)
    is_scaled_well = deviation >= _CONSTANT and (deviation >= _FAR_DEVIATION or mean <= _FAR_MEAN)
    if is_scaled_well or not is_scaled:
        return ""
    return (
        f"gets values from {values.min():.4g} to {values.max():.4g} and returns"
        f" {result.min():.4g} to {result.max():.4g}, which hardly differ: the inputs are scaled"
        " already, so remove the layer, or let the workload have raw_inputs=True"
    )


def _moments(values: np.ndarray, axis: int | None) -> tuple[float, float]:
    """Return the usual distance of a column's mean from 0, and the usual deviation."""
    mean, deviation = np.abs(values.mean(axis=axis)), values.std(axis=axis)
    return float(np.median(mean)), float(np.median(deviation))
