"""The default model of records: a net of all their values side by side."""

from collections.abc import Mapping
from typing import Any

from trainer.runtime.lazy import keras, layers

_BUCKETS = 1_000  # of the hashes of texts


def dense(
    inputs: Mapping[str, Any], *, labels: tuple[str, ...], hidden_units: tuple[int, ...] = (64, 64)
) -> Any:
    """Return a net of numbers of any shape, and of texts by their hashes.

    Args:
        inputs: by name.
        labels: the names of the classes, () for a number.
        hidden_units: the sizes of the hidden layers.
    """
    parts = [_flat(values) for values in inputs.values()]
    x = layers.BatchNormalization()(layers.Concatenate()(parts) if len(parts) > 1 else parts[0])
    for units in hidden_units:
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(len(labels) or 1)(x))


def _flat(values: Any) -> Any:
    if values.dtype == "string":
        values = layers.Embedding(_BUCKETS, 8)(layers.Hashing(_BUCKETS)(values))
    return layers.Reshape([-1], dtype="float32")(values)
