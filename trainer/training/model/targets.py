"""Labels as the loss and metrics of a model expect them, and a sample to try them with."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.errors import ConfigError
from trainer.serving.outputs import (
    BY_LABEL,
    NUM_SAMPLED,
    main_output,
    output_kind,
    symbolic_outputs,
    zero_features,
)
from trainer.workloads.base import Workload

_SPARSE = "sparse_categorical_crossentropy"
_CLASS_AXIS = 2


class Sample:
    """A few made-up examples: their inputs, labels, weights and outputs."""

    def __init__(self, workload: Workload, model: Any):
        random = np.random.default_rng(5)
        features = zero_features(workload)
        self.inputs = workload.preprocess(features)
        self.outputs = _zero_outputs(model, self.inputs)

        def draw(output: tf.Tensor) -> tf.Tensor:
            values = random.uniform(0.05, 0.95, output.shape)
            if workload.label.has_classes and values.ndim == _CLASS_AXIS and values.shape[1] > 1:
                values /= values.sum(axis=1, keepdims=True)
            return tf.constant(values, output.dtype)

        self.random_outputs = keras.tree.map_structure(draw, self.outputs)
        labels = workload.label.sample(random, NUM_SAMPLED, len(workload.labels))
        self.labels = tf.constant(labels)
        has_weights = workload.example_weights(features, self.labels) is not None
        weights = tf.constant(random.uniform(0.5, 2, NUM_SAMPLED), tf.float32)
        self.weights = weights if has_weights else None


def _zero_outputs(model: Any, inputs: Any) -> Any:
    """Return outputs of the right shapes; a model of unknown shapes is called.

    So is a model of texts: Keras 3.15 gives symbolic outputs of TextVectorization another rank.
    """
    known = symbolic_outputs(model)
    shapes = [output.shape[1:] for output in keras.tree.flatten(known)] if known is not None else []
    has_texts = any(values.dtype == tf.string for values in keras.tree.flatten(inputs))
    if not shapes or has_texts or any(None in shape for shape in shapes):
        return keras.tree.map_structure(lambda output: tf.cast(output, tf.float32), model(inputs))
    return keras.tree.map_structure(
        lambda output: tf.zeros([NUM_SAMPLED, *output.shape[1:]]), known
    )


def make_targets(workload: Workload, outputs: Any, labels: tf.Tensor, *, is_sparse: bool) -> Any:
    """Return the labels as Keras' losses expect them, for each output of the model."""

    def target(output: tf.Tensor) -> tf.Tensor:
        is_matrix = len(output.shape) == _CLASS_AXIS
        if workload.label.has_classes and is_matrix and output.shape[1] > 1:
            return labels if is_sparse else tf.one_hot(labels, output.shape[1])
        values = tf.cast(labels, tf.float32)
        return tf.reshape(values, [-1, 1]) if is_matrix and len(labels.shape) == 1 else values

    if isinstance(outputs, Mapping):
        return {name: target(output) for name, output in outputs.items()}
    return keras.tree.map_structure(target, outputs)


def has_only_main(model: Any, outputs: Any, workload: Workload) -> bool:
    """Return True if only the label's output goes to the loss and the metrics, without its name.

    It is so if there is a single loss, which is then the label's.

    Raises:
        ConfigError: another output, for which there are no labels, has a loss or metrics.
    """
    if not isinstance(outputs, Mapping) or len(outputs) == 1 or _has_own_loss(model):
        return False
    compiled = model._compile_metrics
    arguments = {
        "loss": getattr(model._compile_loss, "_user_loss", None),
        "metrics": getattr(compiled, "_user_metrics", None),
        "weighted_metrics": getattr(compiled, "_user_weighted_metrics", None),
    }
    label = workload.label.column
    for argument, value in arguments.items():
        named = value if isinstance(value, Mapping) else {}
        unlabelled = [name for name, losses in named.items() if losses and name != label]
        if unlabelled:
            raise ConfigError(
                f"compile has {argument} for the output {unlabelled[0]!r}, but examples have labels"
                f" only for {label!r}: remove it"
            )
    return not isinstance(arguments["loss"], Mapping)


def _has_own_loss(model: Any) -> bool:
    return type(model).compute_loss is not keras.Model.compute_loss


def possible_targets(model: Any, workload: Workload) -> tuple[bool, ...]:
    """Return the forms of class labels to try: class numbers (True), one-hot (False).

    Keras' own losses take one of them. A loss of the user's own takes class numbers if it can.
    """
    if not workload.label.has_classes:
        return (False,)
    losses = losses_of(model)
    if not losses or _has_own_loss(model):
        return (True, False)
    kinds = {_takes_class_numbers(loss) for loss in losses}
    if len(kinds) > 1 and None not in kinds:
        raise ConfigError(
            f"the losses {loss_name(model)} take class numbers and one-hot labels: use losses of"
            " one form, all sparse or none"
        )
    [kind] = kinds if len(kinds) == 1 else [None]
    return (True, False) if kind is None else (kind,)


def _takes_class_numbers(loss: Any) -> bool | None:
    """Return True for a sparse loss of Keras, False for another one of Keras, None for others."""
    if isinstance(loss, str):
        if loss.lower() in ("crossentropy", "ce"):
            return True
        loss = keras.losses.get(loss)
    name = getattr(getattr(loss, "fn", loss), "__name__", "")
    module = getattr(getattr(loss, "fn", loss), "__module__", "")
    return name == _SPARSE if module.startswith("keras.") else None


def compile_by_label(
    model: Any, workload: Workload, sample: Sample, *, label_smoothing: float
) -> None:
    """Compile a model with the loss and metrics of the label's kind."""
    has_logits = output_kind(model, workload).has_logits
    output = main_output(sample.outputs, workload)
    is_single = len(output.shape) < _CLASS_AXIS or output.shape[1] == 1
    loss, metric = workload.label.compiled(
        is_single=is_single, has_logits=has_logits, smoothing=label_smoothing
    )
    # The optimizer is the recipe's.
    model.compile(optimizer=None, loss=loss, metrics=[metric])
    setattr(model, BY_LABEL, True)


def check_methods(model: Any) -> None:
    """Raise ConfigError if the model has a train step of its own, which no strategy can split."""
    for name, instead in (("train_step", "compute_loss"), ("test_step", "compute_metrics")):
        if getattr(type(model), name) is not getattr(keras.Model, name):
            raise ConfigError(
                f"{type(model).__name__}.{name}: a step of the model's own cannot be divided over"
                f" devices and replicas; override {instead} instead, which every strategy calls"
            )


def no_number_error(model: Any) -> ConfigError:
    """Return the error for a loss without a reduction."""
    return ConfigError(
        f"the loss {loss_name(model)} is not one number: give it a reduction, such as"
        " sum_over_batch_size"
    )


def loss_name(model: Any) -> str:
    """Return the names of the losses of a compiled model, for messages."""
    if _has_own_loss(model):
        return f"{type(model).__name__}.compute_loss"
    return ", ".join(
        loss if isinstance(loss, str) else getattr(loss, "name", getattr(loss, "__name__", "?"))
        for loss in losses_of(model)
    )


def losses_of(model: Any) -> list[Any]:
    """Return the losses that a model is compiled with: names, functions and Keras losses."""
    losses = keras.tree.flatten(getattr(model._compile_loss, "_user_loss", None))
    return [loss for loss in losses if loss is not None]


def ignores_a_class(model: Any) -> bool:
    """Return True if a loss of Keras is the mean over the examples that are not of one class."""
    options = [getattr(loss, "_fn_kwargs", {}) for loss in losses_of(model)]
    return any(loss_options.get("ignore_class") is not None for loss_options in options)


def format_shapes(outputs: Any) -> str:
    """Return the shapes of tensors for messages: `[batch, 3], [batch]`."""
    shapes = [
        f"[batch{''.join(f', {size}' for size in output.shape[1:])}]"
        for output in keras.tree.flatten(outputs)
    ]
    return ", ".join(shapes)
