"""The wide-and-deep net: a linear model of the inputs and crosses, plus a net of embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.runtime.lazy import keras, layers
from trainer.workloads.models.residual import pooled

_DROPOUT = 0.2
# Short trainings have few steps for the moving averages to converge in.
_BATCH_NORM_MOMENTUM = 0.95
# Deviations beyond which a number hardly counts more.
_FAR = 3.0


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the inputs and the output of a wide-and-deep net.

    Attributes:
        categories: number of categories of each column of `categories`.
        crosses: number of combinations of each column of `pairs`.
        num_amounts: columns of `amounts`.
        edges: the edges of the pieces of each column of `amounts`, if any has pieces.
        tokens: (categories, length) of each input of tokens, by name.
        images: (height, width, channels) of each input of pixels, by name.
        num_outputs: logits, or 1 for a number.
    """

    categories: Sequence[int]
    crosses: Sequence[int]
    num_amounts: int
    tokens: Mapping[str, tuple[int, int]]
    num_outputs: int
    images: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    edges: Sequence[Sequence[float]] = ()


def build_wide_and_deep(
    sizes: Sizes,
    *,
    hidden_units: Sequence[int],
    embedding_size: int,
    batch_norm: bool,
    scale: Sequence[float] | None = None,
) -> Any:
    """Return a linear model of all categories, crosses and tokens, plus a net of embeddings.

    Numbers with edges are inputs of both as they are, but for outliers, and piecewise linearly.
    Pictures pass through a small residual net, whose result is an input of both.
    A predicted number is multiplied by the deviation of `scale`, and its mean added.
    """
    from trainer.workloads.models.layers import PiecewiseLinear

    inputs = _inputs(sizes)
    pictures = [layers.Dropout(_DROPOUT)(pooled(inputs[name])) for name in sizes.images]
    parts, logits = [*pictures], []
    if sizes.categories:
        embedded = layers.Embedding(sum(sizes.categories), embedding_size)(inputs["categories"])
        parts.append(layers.Flatten()(embedded))
    if sizes.num_amounts:
        amounts = inputs["amounts"]
        if any(sizes.edges):
            pieces = PiecewiseLinear(sizes.edges, dtype="float32")(amounts)
            near = amounts / keras.ops.sqrt(1 + keras.ops.square(amounts / _FAR))
            amounts = layers.concatenate([near, pieces])
            logits.append(_linear(amounts, sizes.num_outputs))
        parts.append(amounts)
    for name, (size, _) in sizes.tokens.items():
        parts.append(sum_embeddings(inputs[name], layers.Embedding(size, embedding_size)))
    logits += [layers.Dense(sizes.num_outputs, dtype="float32")(picture) for picture in pictures]
    if len(parts) > len(pictures) or not pictures:
        deep = layers.concatenate(parts) if len(parts) > 1 else parts[0]
        for units in hidden_units:
            deep = layers.Dropout(_DROPOUT)(_hidden_layer(deep, units, batch_norm=batch_norm))
        logits.append(layers.Dense(sizes.num_outputs, dtype="float32")(deep))
    for name, counts in (("categories", sizes.categories), ("pairs", sizes.crosses)):
        if name in inputs:
            weights = _linear_weights(sum(counts), sizes.num_outputs)
            logits.append(keras.ops.sum(weights(inputs[name]), axis=1))
    for name, (size, _) in sizes.tokens.items():
        weights = _linear_weights(size, sizes.num_outputs)
        logits.append(sum_embeddings(inputs[name], weights, is_scaled=False))
    outputs = layers.add(logits) if len(logits) > 1 else logits[0]
    if scale is not None:
        mean, deviation = scale
        outputs = layers.Rescaling(deviation, offset=mean, dtype="float32")(outputs)
    return keras.Model(inputs, outputs)


def _inputs(sizes: Sizes) -> dict[str, Any]:
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "categories": ((len(sizes.categories),), "int32"),
        "pairs": ((len(sizes.crosses),), "int32"),
        "amounts": ((sizes.num_amounts,), "float32"),
        **{name: ((length,), "int32") for name, (_, length) in sizes.tokens.items()},
        **{name: (shape, "float32") for name, shape in sizes.images.items()},
    }
    return {
        name: keras.Input(shape, dtype=dtype, name=name)
        for name, (shape, dtype) in shapes.items()
        if any(shape)
    }


def sum_embeddings(tokens: Any, embedding: Any, *, is_scaled: bool = True) -> Any:
    """Return the sum of the embeddings of tokens that are not padding, 0 if there are none.

    If it is scaled, it is divided by the root of their number, so that texts of any length give
    values of about the same size. With the mean a few telling words would hardly change the output.
    """
    vectors = embedding(tokens)
    is_token = keras.ops.cast(keras.ops.not_equal(tokens, 0), vectors.dtype)[..., None]
    total = keras.ops.sum(vectors * is_token, axis=1)
    return (
        total / keras.ops.sqrt(keras.ops.maximum(keras.ops.sum(is_token, axis=1), 1))
        if is_scaled
        else total
    )


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
        if size is None:
            parts.append(tensor)
        elif len(tensor.shape) == 1:
            parts.append(layers.Embedding(size, embedding_size)(tensor))
        else:
            parts.append(sum_embeddings(tensor, layers.Embedding(size, embedding_size)))
    return layers.concatenate(parts) if len(parts) > 1 else parts[0]
