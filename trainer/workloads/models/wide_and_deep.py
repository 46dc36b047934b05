"""The wide-and-deep net: a linear model of the inputs and crosses, plus a net of embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.runtime.lazy import keras, layers
from trainer.workloads.models.residual import pooled

_DROPOUT = 0.2
# Short trainings have few steps for the moving averages to converge in.
_BATCH_NORM_MOMENTUM = 0.95
# Deviations beyond which a number hardly counts more.
_FAR = 3.0


def build_wide_and_deep(
    *,
    categories: Sequence[int],
    crosses: Sequence[int],
    num_amounts: int,
    edges: Sequence[Sequence[float]],
    tokens: Mapping[str, tuple[int, int]],
    images: Mapping[str, tuple[int, int, int]],
    num_outputs: int,
    hidden_units: Sequence[int],
    embedding_size: int,
    batch_norm: bool,
    scale: Sequence[float] | None = None,
) -> Any:
    """Return a linear model of all categories, crosses and tokens, plus a net of embeddings.

    Numbers with edges are inputs of both as they are, but for outliers, and piecewise linearly.
    Pictures pass through a small residual net, whose result is an input of both.
    A predicted number is multiplied by the deviation of `scale`, and its mean added.

    `categories` and `crosses` have the number of categories of each column of the inputs
    `categories` and `pairs`; `edges` the edges of the pieces of each of the `num_amounts` columns
    of `amounts`, if any has pieces; `tokens` (categories, length), and `images` (height, width,
    channels), of each such input by name. `scale` is mean and deviation of a predicted number.
    """
    from trainer.workloads.models.layers import PiecewiseLinear

    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "categories": ((len(categories),), "int32"),
        "pairs": ((len(crosses),), "int32"),
        "amounts": ((num_amounts,), "float32"),
        **{name: ((length,), "int32") for name, (_, length) in tokens.items()},
        **{name: (shape, "float32") for name, shape in images.items()},
    }
    inputs = {
        name: keras.Input(shape, dtype=dtype, name=name)
        for name, (shape, dtype) in shapes.items()
        if any(shape)
    }
    pictures = [layers.Dropout(_DROPOUT)(pooled(inputs[name])) for name in images]
    parts, logits = [*pictures], []
    if categories:
        embedded = layers.Embedding(sum(categories), embedding_size)(inputs["categories"])
        parts.append(layers.Flatten()(embedded))
    if num_amounts:
        amounts = inputs["amounts"]
        if any(edges):
            pieces = PiecewiseLinear(edges, dtype="float32")(amounts)
            near = amounts / keras.ops.sqrt(1 + keras.ops.square(amounts / _FAR))
            amounts = layers.concatenate([near, pieces])
            logits.append(_linear(amounts, num_outputs))
        parts.append(amounts)
    for name, (size, _) in tokens.items():
        parts.append(sum_embeddings(inputs[name], layers.Embedding(size, embedding_size)))
    logits += [layers.Dense(num_outputs, dtype="float32")(picture) for picture in pictures]
    if len(parts) > len(pictures) or not pictures:
        deep = layers.concatenate(parts) if len(parts) > 1 else parts[0]
        for units in hidden_units:
            deep = layers.Dropout(_DROPOUT)(_hidden_layer(deep, units, batch_norm=batch_norm))
        logits.append(layers.Dense(num_outputs, dtype="float32")(deep))
    for name, counts in (("categories", categories), ("pairs", crosses)):
        if name in inputs:
            weights = _linear_weights(sum(counts), num_outputs)
            logits.append(keras.ops.sum(weights(inputs[name]), axis=1))
    for name, (size, _) in tokens.items():
        weights = _linear_weights(size, num_outputs)
        logits.append(sum_embeddings(inputs[name], weights, is_scaled=False))
    outputs = layers.add(logits) if len(logits) > 1 else logits[0]
    if scale is not None:
        mean, deviation = scale
        outputs = layers.Rescaling(deviation, offset=mean, dtype="float32")(outputs)
    return keras.Model(inputs, outputs)


def sum_embeddings(tokens: Any, embedding: Any, *, is_scaled: bool = True) -> Any:
    """Return the sum of the embeddings of tokens that are not padding, 0 if there are none.

    If it is scaled, it is divided by the root of their number, so that texts of any length give
    values of about the same size. With the mean a few telling words would hardly change the output.
    """
    vectors = embedding(tokens)
    is_token = keras.ops.cast(keras.ops.not_equal(tokens, 0), vectors.dtype)[..., None]
    total = keras.ops.sum(vectors * is_token, axis=1)
    if not is_scaled:
        return total
    return total / keras.ops.sqrt(keras.ops.maximum(keras.ops.sum(is_token, axis=1), 1))


def _linear(numbers: Any, num_outputs: int) -> Any:
    return layers.Dense(num_outputs, use_bias=False, kernel_initializer="zeros", dtype="float32")(
        numbers
    )


def _linear_weights(size: int, num_outputs: int) -> Any:
    return layers.Embedding(size, num_outputs, embeddings_initializer="zeros", dtype="float32")


def linear_variables(model: Any) -> list[Any]:
    """Return the weights of categories and crosses: the embeddings initialised to zeros."""
    return [
        layer.embeddings
        for layer in model.layers
        if isinstance(layer, keras.layers.Embedding)
        and isinstance(layer.embeddings_initializer, keras.initializers.Zeros)
    ]


def _hidden_layer(inputs: Any, units: int, *, batch_norm: bool) -> Any:
    if not batch_norm:
        return layers.Dense(units, activation="relu")(inputs)
    outputs = layers.Dense(units, use_bias=False)(inputs)
    return layers.ReLU()(layers.BatchNormalization(momentum=_BATCH_NORM_MOMENTUM)(outputs))


def combine(inputs: Mapping[str, Any], *, embedding_size: int = 8) -> Any:
    """Return all inputs of a table's model side by side, float32 [batch, size].

    Categories become embeddings, tokens the sum of their embeddings divided by the root of their
    number, and numbers stay as they are.

    Args:
        inputs: the Keras inputs by name, the argument of a table's model.
        embedding_size: size of the embedding of a category or token.
    """
    parts = []
    for tensor in inputs.values():
        size = getattr(tensor, "num_categories", None)
        if size is None and "int" in str(tensor.dtype):
            raise ValueError(
                "combine gets categories of unknown size: call it in model(inputs), and give what"
                " it returns to the layer or keras.Model, whose call has other tensors"
            )
        if size is None:
            parts.append(tensor)
        elif len(tensor.shape) == 1:
            parts.append(layers.Embedding(size, embedding_size)(tensor))
        else:
            parts.append(sum_embeddings(tensor, layers.Embedding(size, embedding_size)))
    return layers.concatenate(parts) if len(parts) > 1 else parts[0]
