"""A Keras model as a pure function of two flat vectors: its weights and its state.

On a parameter server every variable that a step reads or updates is an RPC of its own, which is
what makes small models slow there. One flat vector of all weights is one RPC and one fused update.
The state is what a model holds besides its trainable weights, such as the moving statistics of
batch normalisation: a second vector. Large embeddings are no part of the vector that a step reads:
see `trainer.training.model.embeddings`.
"""

import itertools
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError
from trainer.training.model.devices import has_bfloat16
from trainer.training.model.embeddings import (
    EmbeddingPlace,
    Fetch,
    LargeEmbedding,
    is_plain,
    look_up,
    replaced_lookups,
)
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)

_MIXED = "mixed_bfloat16"
_FLOAT16_ADVICE = "float16 is not supported, use --mixed-precision, which is bfloat16"
SEED_NAME = "seed_generator_state"  # Keras' name of the counters of random generators


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """A call of a model: its inputs, its outputs in float32, and the variables after it."""

    inputs: Any
    outputs: Any
    state: tf.Tensor
    """The new state."""
    penalties: list[tf.Tensor]
    """The losses of regularizers and of `add_loss`."""
    weights: list[tf.Tensor]
    non_trainable: list[tf.Tensor]
    """The values of the non-trainable variables."""


class FlatModel:
    """A Keras model that is called with flat vectors instead of its own variables.

    Variables that are no floats are excluded from the state. Each call sets the counters of Keras'
    random number generators (dropout) from its `seed`; others, such as the number of rows that a
    Normalization was adapted to, keep their value.

    The vector of weights has all variables, or all but the large `embeddings` of the model, which
    are then looked up by a function. Methods say so where they mean the second.

    With `is_compiled` the model is called in code for XLA.
    """

    def __init__(
        self, model: Any, embeddings: Sequence[LargeEmbedding] = (), *, is_compiled: bool = False
    ):
        self.keras, self._embeddings = model, embeddings
        self._weights = model.trainable_variables
        large = {id(embedding.layer.embeddings) for embedding in embeddings}
        has_fast_lookups = not (is_compiled or tf.config.list_physical_devices("GPU"))
        self._small_embeddings = [
            layer
            for layer in model._flatten_layers(include_self=False)
            if has_fast_lookups and is_plain(layer) and id(layer.embeddings) not in large
        ]
        self._small = [variable for variable in self._weights if id(variable) not in large]
        self._state = [
            variable for variable in model.non_trainable_variables if _is_float(variable)
        ]
        self._fixed = {
            index: tf.constant(variable.numpy())
            for index, variable in enumerate(model.non_trainable_variables)
            if not _is_float(variable) and variable.name != SEED_NAME
        }
        self.size = sum(_sizes(self._weights))
        self.small_size = sum(_sizes(self._small))
        """The number of weights without embeddings."""
        self.state_size = sum(_sizes(self._state))

    def __call__(
        self,
        weights: tf.Tensor,
        state: tf.Tensor,
        inputs: Any,
        *,
        seed: tf.Tensor | None = None,
        lookup: Fetch | None = None,
    ) -> ModelCall:
        """Call the model, with weights without embeddings and a function that looks those up.

        In training if there is a seed, two int32 numbers; else in inference.
        """
        is_training = seed is not None
        values = self._all_values(weights)
        layers = [embedding.layer for embedding in self._embeddings]
        with (
            replaced_lookups(layers if lookup else [], lookup or self._look_up),
            replaced_lookups(self._small_embeddings if is_training else [], self._look_up),
        ):
            outputs, non_trainable, penalties = self.keras.stateless_call(
                values,
                self._split_state(state, seed=seed if is_training else tf.zeros([2], tf.int32)),
                inputs,
                return_losses=True,
                **({"training": is_training} if self.keras._call_has_training_arg else {}),
            )
        return ModelCall(
            inputs=inputs,
            outputs=keras.tree.map_structure(_to_float32, outputs),
            state=join_flat([value for value in non_trainable if _is_float(value)]),
            penalties=penalties,
            weights=values,
            non_trainable=non_trainable,
        )

    def split_small(self, weights: tf.Tensor) -> list[tf.Tensor]:
        """Return each variable's part of a vector of the weights without embeddings."""
        return split_flat(weights, self._small)

    def read_weights(self) -> tf.Tensor:
        """Return the Keras model's weights."""
        return join_flat([variable.value for variable in self._weights])

    def read_state(self) -> tf.Tensor:
        """Return the Keras model's state."""
        return join_flat([variable.value for variable in self._state])

    def write(self, weights: tf.Tensor, state: tf.Tensor) -> None:
        """Set the variables of the Keras model."""
        for flat, variables in ((weights, self._weights), (state, self._state)):
            for variable, values in zip(variables, split_flat(flat, variables), strict=True):
                variable.assign(values)

    def weights_by_name(self, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the weights in their own shapes, by Keras' names of the variables."""
        names = [variable.path for variable in self._weights]
        return dict(zip(names, split_flat(weights, self._weights), strict=True))

    def decay_mask(self) -> tf.Tensor:
        """Return 1 for each weight that decays, 0 for weights of biases and normalisations."""
        masks = [
            tf.fill(variable.shape, float(len(variable.shape) > 1)) for variable in self._weights
        ]
        return join_flat(masks)

    def segments(self, chosen: Sequence[Any]) -> tuple[tuple[int, bool], ...]:
        """Return (number of weights, is one of the `chosen` variables) for each variable."""
        paths = {variable.path for variable in chosen}
        is_chosen = [variable.path in paths for variable in self._weights]
        return tuple(zip(_sizes(self._weights), is_chosen, strict=True))

    def places(self) -> tuple[EmbeddingPlace, ...]:
        """Return the places of the embeddings in a vector of all weights."""
        starts = itertools.accumulate(_sizes(self._weights), initial=0)
        start_of = dict(zip(map(id, self._weights), starts, strict=False))
        return tuple(
            EmbeddingPlace(
                start=start_of[id(embedding.layer.embeddings)],
                num_rows=embedding.layer.input_dim,
                size=embedding.layer.output_dim,
                ids_per_example=embedding.ids_per_example,
            )
            for embedding in self._embeddings
        )

    def _look_up(self, number: int, ids: tf.Tensor) -> tf.Tensor:
        weights = self._small_embeddings[number].embeddings
        return look_up(tf.convert_to_tensor(weights), ids)

    def _all_values(self, weights: tf.Tensor) -> list[tf.Tensor]:
        """Return the values of all trainable variables; of embeddings, numbers never read."""
        small = iter(split_flat(weights, self._small))
        is_small = set(map(id, self._small))
        return [
            next(small) if id(variable) in is_small else tf.fill(variable.shape, math.nan)
            for variable in self._weights
        ]

    def _split_state(self, state: tf.Tensor, *, seed: tf.Tensor) -> list[tf.Tensor]:
        values = iter(split_flat(state, self._state))

        def value(index: int, variable: Any) -> tf.Tensor:
            if index in self._fixed:
                return self._fixed[index]
            return next(values) if _is_float(variable) else _counter(variable, seed, index)

        return [value(*item) for item in enumerate(self.keras.non_trainable_variables)]


def build_model(workload: Workload, config: TrainConfig) -> Any:
    """Return the Keras model to train."""
    is_mixed = config.mixed_precision or keras.config.dtype_policy().name == _MIXED
    if is_mixed and not has_bfloat16():
        logger.warning("--mixed-precision: this machine has no bfloat16; computing in float32")
        return _build(workload, config, "float32")
    return _build(workload, config, _MIXED if is_mixed else "float32")


def build_served_model(workload: Workload, config: TrainConfig) -> Any:
    """Return the Keras model to evaluate and export: the same weights, always in float32.

    In bfloat16 a prediction would depend on which other instances are in the same request.
    """
    return _build(workload, config, "float32")


def _build(workload: Workload, config: TrainConfig, policy: str) -> Any:
    before = keras.config.dtype_policy()
    if before.name not in ("float32", _MIXED):
        raise ConfigError(
            f"the file of the workload sets the dtype policy {before.name}: {_FLOAT16_ADVICE}"
        )
    keras.config.set_dtype_policy(policy)
    try:
        model = workload.build_model(config.model)
    finally:
        keras.config.set_dtype_policy(before)
    half = [layer for layer in model._flatten_layers() if layer.compute_dtype == "float16"]
    if half:
        raise ConfigError(f"the layer {half[0].name} computes in float16: {_FLOAT16_ADVICE}")
    return model


def _sizes(variables: Sequence[Any]) -> list[int]:
    return [math.prod(variable.shape) for variable in variables]


def split_flat(flat: tf.Tensor, variables: Sequence[Any]) -> list[tf.Tensor]:
    """Return each variable's part of a flat vector, in its own shape."""
    if not variables:
        return []
    parts = tf.split(flat, _sizes(variables))
    return [
        tf.reshape(part, variable.shape) for part, variable in zip(parts, variables, strict=True)
    ]


def join_flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return tensors as one flat vector."""
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
    return tf.concat(flat, 0) if flat else tf.zeros([0])


def _to_float32(output: tf.Tensor) -> tf.Tensor:
    # A cast to the same type would return the tensor itself, but lose Keras' mask of it.
    return output if output.dtype == tf.float32 else tf.cast(output, tf.float32)


def _is_float(variable: Any) -> bool:
    return bool(tf.as_dtype(variable.dtype).is_floating)


def _counter(variable: Any, seed: tf.Tensor, index: int) -> tf.Tensor:
    """Return the value of a random number generator's counter: distinct for each variable."""
    value = tf.stack([seed[0] + index, seed[1]])
    return tf.cast(tf.reshape(value, variable.shape), tf.as_dtype(variable.dtype))
