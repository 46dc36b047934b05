"""Outputs of a Keras model: which one predicts the label, and what its numbers mean."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer.errors import ConfigError
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Binary, Classes, Multilabel, Regression

_MATRIX = 2


def main_output(outputs: Any, workload: Workload) -> Any:
    """Return the output that predicts the label: the only one, or the one with its name."""
    named = outputs if isinstance(outputs, Mapping) else {}
    if workload.label.column in named:
        return named[workload.label.column]
    flat = keras.tree.flatten(outputs)
    if len(flat) > 1:
        names = f"the outputs {', '.join(named)}" if named else f"{len(flat)} outputs without names"
        raise ConfigError(
            f"the model has {names}: name the one that predicts the label, as"
            f" keras.Model(inputs, {{{workload.label.column!r}: …}})"
        )
    return flat[0]


def check_output(outputs: Any, workload: Workload) -> None:
    """Raise ConfigError unless the main output, with a shape, fits the label."""
    label, shape = workload.label, tuple(main_output(outputs, workload).shape)
    num = len(workload.labels)
    allowed: dict[type, tuple[list[tuple[int, ...]], str]] = {
        Binary: ([(1,), (2,), ()], "keras.layers.Dense(1) or Dense(2)"),
        Classes: ([(num,)], f"keras.layers.Dense({num})"),
        Multilabel: ([(num,)], f"keras.layers.Dense({num})"),
        Regression: ([(1,), ()], "keras.layers.Dense(1)"),
    }
    shapes, advice = allowed.get(type(label), ([shape[1:]], ""))
    if shape[1:] not in shapes:
        wanted = " or ".join(f"[batch{''.join(f', {size}' for size in sizes)}]" for sizes in shapes)
        came = f"[batch{''.join(f', {size}' for size in shape[1:])}]"
        raise ConfigError(
            f"the model's output is {came}, but the label {label.column!r}"
            f" ({type(label).__name__}) needs {wanted}: let the model end with {advice}"
        )


def probabilities(output: tf.Tensor, workload: Workload, *, has_logits: bool) -> tf.Tensor:
    """Return the probabilities [batch, labels] of a main output, in float32.

    Those of a Binary label are [batch, 2], of the negative and the positive class.
    """
    output = tf.cast(output, tf.float32)
    is_single = len(output.shape) < _MATRIX or output.shape[-1] == 1
    if isinstance(workload.label, Multilabel):
        return tf.sigmoid(output) if has_logits else output
    if is_single:
        positive = tf.reshape(tf.sigmoid(output) if has_logits else output, [-1, 1])
        return tf.concat([1 - positive, positive], 1)
    return tf.nn.softmax(output) if has_logits else output
