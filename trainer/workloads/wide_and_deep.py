"""The wide-and-deep net: a linear model of categories and crosses, plus a net of embeddings."""

from collections.abc import Sequence
from typing import Any

_DROPOUT = 0.2
# Short trainings have few steps for the moving averages to converge in.
_BATCH_NORM_MOMENTUM = 0.95


def build_wide_and_deep(
    *,
    category_sizes: Sequence[int],
    cross_sizes: Sequence[int],
    num_amounts: int,
    num_labels: int,
    hidden_units: Sequence[int],
    embedding_size: int,
    batch_norm: bool,
) -> Any:
    """Return a linear model of all categories and crosses, plus a net of embeddings."""
    import keras
    from keras import layers

    categories = keras.Input([len(category_sizes)], dtype="int32", name="categories")
    pairs = keras.Input([len(cross_sizes)], dtype="int32", name="pairs")
    amounts = keras.Input([num_amounts], name="amounts")
    deep = layers.Embedding(sum(category_sizes), embedding_size)(categories)
    deep = layers.concatenate([layers.Flatten()(deep), amounts])
    for units in hidden_units:
        deep = layers.Dropout(_DROPOUT)(_hidden_layer(deep, units, batch_norm=batch_norm))
    logits = [layers.Dense(num_labels, dtype="float32")(deep)]
    inputs = {"categories": categories, "pairs": pairs, "amounts": amounts}
    if not cross_sizes:
        del inputs["pairs"]
    for name, sizes in (("categories", category_sizes), ("pairs", cross_sizes)):
        if name in inputs:
            weights = layers.Embedding(
                sum(sizes), num_labels, embeddings_initializer="zeros", dtype="float32"
            )
            logits.append(keras.ops.sum(weights(inputs[name]), axis=1))
    return keras.Model(inputs, layers.add(logits))


def linear_variables(model: Any) -> list[Any]:
    """Return the weights of categories and crosses: the embeddings initialised to zeros."""
    import keras

    return [
        layer.embeddings
        for layer in model.layers
        if isinstance(layer, keras.layers.Embedding)
        and isinstance(layer.embeddings_initializer, keras.initializers.Zeros)
    ]


def _hidden_layer(inputs: Any, units: int, *, batch_norm: bool) -> Any:
    from keras import layers

    if not batch_norm:
        return layers.Dense(units, activation="relu")(inputs)
    outputs = layers.Dense(units, use_bias=False)(inputs)
    return layers.ReLU()(layers.BatchNormalization(momentum=_BATCH_NORM_MOMENTUM)(outputs))
