"""Lookups of embeddings, and large ones, of which a step reads and updates only some rows.

Large embeddings are no part of the flat vector: each is a variable of its own, on the parameter
servers. A step fetches each row that its part of the batch needs once, and returns the gradient of
those rows. The others are parts of the vector, with a faster gradient than TensorFlow's.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import keras
import tensorflow as tf

logger = logging.getLogger(__name__)

# A smaller embedding is not worth messages of its own: 1 MB of float32.
_LEAST_WEIGHTS = 2**18

Fetch = Callable[[int, tf.Tensor], tf.Tensor]
"""Return the rows [n, size] of the embedding of a number, given their ids [n]."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingPlace:
    """The place of a large embedding, `num_rows` rows of `size` weights, in the flat vector."""

    start: int
    num_rows: int
    size: int
    ids_per_example: int

    def most_rows(self, num_examples: int) -> int:
        """Return the most rows that so many examples can need."""
        return min(self.num_rows, self.ids_per_example * num_examples)


class Contribution(NamedTuple):
    """Sums that a part of a batch adds to a step.

    `gradient` is the flat vector's, `state_and_sums` [change of the state, sums of the objective];
    `rows` is the gradient of each large embedding, in which an id may occur several times.
    """

    gradient: tf.Tensor
    state_and_sums: tf.Tensor
    rows: tuple[tf.IndexedSlices, ...] = ()


def add(contributions: Sequence[Contribution]) -> Contribution:
    """Return the sum of contributions."""
    gradients, totals, rows = zip(*contributions, strict=True)
    return Contribution(
        tf.add_n(gradients), tf.add_n(totals), tuple(map(add_rows, zip(*rows, strict=True)))
    )


def scale(contribution: Contribution, factor: float) -> Contribution:
    """Return a contribution times a number."""
    gradient, state_and_sums, rows = contribution
    scaled = [tf.IndexedSlices(factor * part.values, part.indices) for part in rows]
    return Contribution(factor * gradient, factor * state_and_sums, tuple(scaled))


def add_rows(slices: Sequence[tf.IndexedSlices]) -> tf.IndexedSlices:
    """Return the sum of some gradients of one embedding, with each id once."""
    ids, positions = tf.unique(tf.concat([part.indices for part in slices], 0))
    values = tf.concat([part.values for part in slices], 0)
    values = tf.math.unsorted_segment_sum(values, positions, tf.size(ids))
    return tf.IndexedSlices(values, ids)


class Lookups:
    """The rows that a call of a model looks up, in the order of the lookups."""

    def __init__(self, fetch: Fetch, tape: tf.GradientTape):
        self._fetch, self._tape = fetch, tape
        self._looked_up: list[tuple[int, tf.Tensor]] = []
        self.rows: list[tf.Tensor] = []
        """The rows [number of ids, size] of each lookup, to compute the gradient of."""

    def __call__(self, number: int, ids: tf.Tensor) -> tf.Tensor:
        """Return the row of each id, for an embedding given by its number."""
        unique, positions = tf.unique(tf.reshape(ids, [-1]))
        rows = self._fetch(number, unique)
        self._tape.watch(rows)
        self._looked_up.append((number, unique))
        self.rows.append(rows)
        return tf.gather(rows, tf.reshape(positions, tf.shape(ids)))

    def gradients(self, of_rows: Sequence[Any]) -> tuple[tf.IndexedSlices, ...]:
        """Return the gradient of each embedding, given the gradients of `rows`."""
        slices: dict[int, list[tf.IndexedSlices]] = {}
        for (number, ids), gradient in zip(self._looked_up, of_rows, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                row_gradients = tf.IndexedSlices(gradient.values, tf.gather(ids, gradient.indices))
            else:
                row_gradients = tf.IndexedSlices(gradient, ids)
            slices.setdefault(number, []).append(row_gradients)
        return tuple(add_rows(slices[number]) for number in sorted(slices))


def look_up(weights: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Return the row of each id, [*ids.shape, size], of weights [rows, size].

    The gradient is a product with the sparse matrix that has a one in the column of each id. On a
    CPU it takes a quarter of the time of the sum of segments that TensorFlow computes. It is not
    for GPUs, where the product is not deterministic, nor for XLA.
    """

    def differentiate(of_rows: tf.Tensor) -> tf.Tensor:
        columns = tf.cast(tf.reshape(ids, [-1]), tf.int64)
        count = tf.size(columns, tf.int64)
        total = tf.raw_ops.SparseTensorDenseMatMul(
            a_indices=tf.stack([tf.range(count), columns], axis=1),
            a_values=tf.ones([count]),
            a_shape=tf.stack([count, weights.shape[0]]),
            b=tf.cast(tf.reshape(of_rows, [-1, weights.shape[1]]), tf.float32),
            adjoint_a=True,
        )
        return tf.cast(total, weights.dtype)

    return tf.custom_gradient(lambda table: (tf.gather(table, ids), differentiate))(weights)


@dataclass(frozen=True)
class LargeEmbedding:
    """A Keras embedding that is trained by rows, and the number of ids it gets of an example."""

    layer: Any
    ids_per_example: int


@contextlib.contextmanager
def replaced_lookups(layers: Sequence[Any], lookup: Fetch) -> Iterator[None]:
    """Let these Keras embeddings look up their rows by a function of number and ids."""

    def call(number: int, layer: Any, inputs: tf.Tensor) -> tf.Tensor:
        ids = tf.cast(inputs, tf.int32)
        # As Keras: an id below 0 counts from the end.
        ids = tf.where(ids < 0, ids + layer.input_dim, ids)
        rows = tf.ensure_shape(lookup(number, ids), [*inputs.shape, layer.output_dim])
        return tf.cast(rows, layer.compute_dtype)

    for number, layer in enumerate(layers):
        vars(layer)["call"] = partial(call, number, layer)
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["call"]


def find_large(
    model: Any, make_inputs: Callable[[], Any], *, least_weights: int = _LEAST_WEIGHTS
) -> tuple[LargeEmbedding, ...]:
    """Return the embeddings of a model that can be trained by rows, and are worth it.

    `make_inputs` returns some inputs of the model, to find out how it uses its embeddings.
    """
    own_loss = type(model).compute_loss is not keras.Model.compute_loss
    layers = [
        layer
        for layer in model._flatten_layers(include_self=False)
        if is_plain(layer) and layer.input_dim * layer.output_dim >= least_weights
    ]
    if own_loss or not layers:
        return ()
    chosen = tuple(_only_looked_up(model, layers, make_inputs()))
    for embedding in chosen:
        logger.info(
            "%s: %d rows of %d weights; a step reads and updates only the rows of its examples",
            embedding.layer.name,
            embedding.layer.input_dim,
            embedding.layer.output_dim,
        )
    return chosen


def is_plain(layer: Any) -> bool:
    """Return True if a layer is a Keras embedding that does nothing but look up trained rows."""
    return (
        isinstance(layer, keras.layers.Embedding)
        and type(layer).call is keras.layers.Embedding.call
        and layer.built
        and layer.trainable
        and not (layer.lora_enabled or layer.quantization_mode)
        and layer.embeddings_regularizer is None
        and layer.embeddings_constraint is None
    )


def _only_looked_up(model: Any, layers: Sequence[Any], inputs: Any) -> list[LargeEmbedding]:
    """Return the layers whose weights a call uses only through lookups, of any rows."""
    num_ids = [0] * len(layers)

    def lookup(number: int, ids: tf.Tensor) -> tf.Tensor:
        num_ids[number] += int(tf.size(ids))
        return tf.ones([*ids.shape, layers[number].output_dim])

    variables = [layer.embeddings.value for layer in layers]
    with tf.GradientTape() as tape, replaced_lookups(layers, lookup):
        outputs = keras.tree.flatten(model(inputs))
        total = tf.add_n([tf.reduce_sum(tf.cast(output, tf.float32)) for output in outputs])
    gradients = tape.gradient(total, variables)
    num_examples = len(outputs[0])
    return [
        LargeEmbedding(layer, -(-count // num_examples))
        for layer, count, gradient in zip(layers, num_ids, gradients, strict=True)
        if gradient is None and count
    ]
