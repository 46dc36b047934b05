"""Outputs of a Keras model: the one that predicts the label, and its kind.

Its numbers are logits or probabilities, by the last layer, the loss, or a trial.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from trainer.errors import ConfigError
from trainer.workloads.base import Workload


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
    shapes = label.output_shapes(len(workload.labels))
    if shape[1:] not in shapes:
        wanted = " or ".join(f"[batch{''.join(f', {size}' for size in sizes)}]" for sizes in shapes)
        came = f"[batch{''.join(f', {size}' for size in shape[1:])}]"
        raise ConfigError(
            f"the model's output is {came}, but the label {label.column!r}"
            f" ({label.kind}) needs {wanted}: let the model end with {next(iter(shapes.values()))}"
        )


# Examples of a sample.
NUM_SAMPLED = 6
# Attribute of a Keras model that was compiled here, not by its author.
BY_LABEL = "is_compiled_by_label"
# Names for which Keras chooses the loss by the labels' shape.
_CHOSEN = ("crossentropy", "ce")
_PROBABILITIES = ("softmax", "sigmoid", "hard_sigmoid")
_LINEAR = ("Dense", "EinsumDense", "Conv1D", "Conv2D")
# Operations that change neither the range of their input nor its sum.
_NEUTRAL = ("Reshape", "Flatten", "Dropout", "Identity", "Cast", "Squeeze")
_NUM_TRIALS = 3
LOGITS, PROBABILITIES = "logits", "probabilities"
_KNOWN = "known_output_kind"


@dataclass(frozen=True)
class OutputKind:
    """Kind of the output that predicts the label; `reason` says from what it follows."""

    numbers: str
    """`logits`, `probabilities` or, for a Regression, `values`."""
    reason: str
    is_guess: bool = False
    """True if it differs from what the loss says, or the loss does not say it."""

    @property
    def has_logits(self) -> bool:
        """True for logits."""
        return self.numbers == LOGITS

    def __str__(self) -> str:
        return f"{self.numbers} ({self.reason})"


def output_kind(model: Any, workload: Workload) -> OutputKind:
    """Return what the model's output is; ConfigError if its loss contradicts it."""
    if workload.label.is_number:
        return OutputKind("values", "the label is a number")
    if workload.model is None:
        return OutputKind(LOGITS, "the default model")
    if not hasattr(model, _KNOWN):
        with tf.init_scope():  # while a graph is traced, too
            setattr(model, _KNOWN, _find_kind(model, workload))
    return getattr(model, _KNOWN)


def _find_kind(model: Any, workload: Workload) -> OutputKind:
    loss = _loss_of(model, workload)
    last, told = _last_operation(model, workload), _from_logits(loss)
    if last in _PROBABILITIES:
        # A loss of Keras ignores its from_logits then: it finds the activation.
        ignored = "; from_logits=True of the loss is ignored" if told else ""
        return OutputKind(
            PROBABILITIES, f"the last layer is {last}{ignored}", is_guess=told is not False
        )
    if told is not None:
        if not told and last in _LINEAR and _is_cross_entropy(loss):
            raise ConfigError(
                f"the loss takes probabilities, but the last layer of the model, {last}, is linear:"
                " give the loss from_logits=True, or the layer activation='softmax' or 'sigmoid'"
            )
        reason = f"the loss has from_logits={told}"
        return OutputKind(LOGITS if told else PROBABILITIES, reason)
    if last in _LINEAR:
        reason = f"the last layer, {last}, is linear"
        return OutputKind(LOGITS, reason, is_guess=loss is not None)
    if _returns_probabilities(model, workload):
        return OutputKind(PROBABILITIES, "the outputs are from 0 to 1", is_guess=True)
    reason = "the outputs are not only from 0 to 1"
    return OutputKind(LOGITS, reason, is_guess=loss is not None)


def _loss_of(model: Any, workload: Workload) -> Any:
    """Return the loss of the label's output as its author gave it; None without one."""
    if hasattr(model, BY_LABEL) or getattr(model, "_compile_loss", None) is None:
        return None
    loss = model._compile_loss._user_loss
    if isinstance(loss, dict):
        loss = loss.get(workload.label.column)
    return next(iter(keras.tree.flatten(loss)), None)


def _from_logits(loss: Any) -> bool | None:
    """Return what a loss says of the output; None if there is none, or it does not say."""
    options = getattr(loss, "_fn_kwargs", {})
    told = getattr(loss, "from_logits", options.get("from_logits"))
    if told is not None or loss is None:
        return None if told is None else bool(told)
    return False if _function(loss).__module__.startswith("keras.") else None


def _function(loss: Any) -> Any:
    if loss in _CHOSEN:
        return keras.losses.categorical_crossentropy
    known = keras.losses.get(loss) if isinstance(loss, str) else loss
    return getattr(known, "fn", known)


def _is_cross_entropy(loss: Any) -> bool:
    return "from_logits" in inspect.signature(_function(loss)).parameters


def _last_operation(model: Any, workload: Workload) -> str:
    """Return the activation or, without one, the class of the last operation; "" if unknown."""
    outputs = symbolic_outputs(model)
    tensor: Any = main_output(outputs, workload) if outputs is not None else None
    while hasattr(tensor, "_keras_history"):
        operation, node, index = tensor._keras_history
        inner = getattr(operation, "_functional", operation)
        kind = type(operation).__name__
        if isinstance(inner, keras.Model) and getattr(inner, "outputs", None):
            tensor = inner.outputs[index]
        elif kind in _NEUTRAL or (kind == "Activation" and _activation(operation) == "linear"):
            tensor = operation._inbound_nodes[node].input_tensors[0]
        else:
            activation = _activation(operation)
            return activation if activation not in ("", "linear") else kind
    return ""


def symbolic_outputs(model: Any) -> Any:
    """Return the symbolic outputs of a model; None if it has none."""
    outputs = getattr(model, "output", None)
    if outputs is None and len(getattr(model, "outputs", None) or ()) == 1:  # a Sequential
        return model.outputs[0]
    return outputs


def _activation(operation: Any) -> str:
    """Return the name of an operation's activation: `softmax` of a Softmax, too; or ""."""
    name = type(operation).__name__.lower()
    if name in _PROBABILITIES:
        return name
    activation = getattr(operation, "activation", None)
    return getattr(activation, "__name__", type(activation).__name__).lower() if activation else ""


def _returns_probabilities(model: Any, workload: Workload) -> bool:
    """Return True if all outputs are from 0 to 1, with the model's weights and with random ones."""
    inputs = keras.tree.map_structure(
        lambda column: _noise(column) % 1 if column.dtype.is_floating else column,
        zero_inputs(workload),
    )
    state = [variable.value for variable in model.non_trainable_variables]
    variables = model.trainable_variables
    for weights in [
        [variable.value for variable in variables],
        *([_noise(variable.value, seed) for variable in variables] for seed in range(_NUM_TRIALS)),
    ]:
        outputs, _ = model.stateless_call(weights, state, inputs)
        output = tf.cast(main_output(outputs, workload), tf.float32)
        if bool(tf.reduce_any((output < 0) | (output > 1))):
            return False
    return True


def _noise(values: tf.Tensor, seed: int = 7) -> tf.Tensor:
    seeds = [seed, values.shape.num_elements() or 0]
    return tf.random.stateless_normal(values.shape, seeds, stddev=3.0, dtype=values.dtype)


def zero_inputs(workload: Workload) -> Any:
    """Return inputs of a workload's model, of examples of zeros."""
    return workload.preprocess(zero_features(workload))


def zero_features(workload: Workload) -> Any:
    """Return the encoded features of examples of zeros, and their weights if they have weights."""
    weights = {workload.weight: tf.ones([NUM_SAMPLED])} if workload.weight else {}
    zeros = {
        name: tf.zeros([NUM_SAMPLED, *(size or 1 for size in spec.shape[1:])], spec.dtype)
        for name, spec in workload.input_specs().items()
    }
    return workload.encode({**weights, **zeros})
