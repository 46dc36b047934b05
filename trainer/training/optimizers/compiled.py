"""Compiled optimizers: Keras' own code on the pieces of the flat vector of weights.

Most optimizers treat each weight by itself. They get a piece as one variable, whatever layers are
in it. Those that look at whole layers (LAMB, Adafactor, Muon, or an optimizer of the user's own)
get a copy of each layer in its shape, and pieces do not cut layers.

Keras reads variables, then writes them. When several workers update a piece at once, each update is
therefore in a critical section of the piece's parameter server.

What depends on all weights at once is done outside: clipping on the worker, before the gradient is
cut; weight decay and moving averages as for our own recipes.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.distribute import distribute_lib

from trainer.config.settings import flag_name
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError
from trainer.training.model.flat_model import FlatModel, join_flat, split_flat
from trainer.training.optimizers.base import Lock, Optimizer, OptimizerStep, Slots
from trainer.training.optimizers.fused import Adam, KerasSgd, PlainSgd, RmsProp
from trainer.training.optimizers.rules import Average, UpdateRules
from trainer.training.optimizers.schedule import KerasRate

_ELEMENTWISE = (
    "SGD",
    "Adam",
    "AdamW",
    "Adamax",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Ftrl",
    "Lion",
    "Nadam",
    "ScheduleFreeAdamW",
)
_UNSUPPORTED = {
    "LossScaleOptimizer": "float16 is not supported: use --mixed-precision, which is bfloat16",
    "MultiOptimizer": "give one optimizer for all variables",
}

# Settings of the recipe's optimizer, without effect on a compiled one.
_RECIPE_SETTINGS = (
    "optimizer",
    "momentum",
    "learning_rate",
    "warmup",
    "schedule_steps",
    "weight_decay",
    "label_smoothing",
    "clip_norm",
    "linear_optimizer",
)


def read_optimizer(model: FlatModel) -> UpdateRules:
    """Return the rules of a compiled optimizer: for pieces, and clipping of the whole gradient.

    Raises:
        ConfigError: it cannot be divided.
    """
    optimizer, variables = model.keras.optimizer, model.keras.trainable_variables
    _check_supported(optimizer)
    has_clip = bool(optimizer.clipnorm or optimizer.clipvalue or optimizer.global_clipnorm)
    accumulates = bool(optimizer.gradient_accumulation_steps)
    kind = type(optimizer)
    is_known = kind.__module__.startswith("keras.") and kind.__name__ in _ELEMENTWISE
    has_constraint = any(variable.constraint is not None for variable in variables)
    decays = [bool(optimizer._use_weight_decay(variable.value)) for variable in variables]
    has_gaps = bool(optimizer.weight_decay) and not all(decays)
    needs_layers = not is_known or has_constraint or (accumulates and (has_clip or has_gaps))
    fused = None if needs_layers or accumulates else _fuse(optimizer)
    average = None
    if optimizer.use_ema:
        frequency = optimizer.ema_overwrite_frequency or 0
        average = Average(decay=optimizer.ema_momentum, is_keras=True, overwrite_every=frequency)
    # A decay in the optimizer's own code is for its rhythm of updates and for layers of its choice.
    has_own_decay = needs_layers or accumulates
    return UpdateRules(
        schedule=KerasRate(optimizer),
        optimizer=fused or KerasOptimizer(optimizer, needs_layers=needs_layers, decays=decays),
        weight_decay=0.0 if has_own_decay else float(optimizer.weight_decay or 0),
        decay_mask=join_flat(
            [
                tf.fill(variable.shape, float(decay))
                for variable, decay in zip(variables, decays, strict=True)
            ]
        ),
        average=average,
        layers=variables,
        clip=optimizer._clip_gradients if has_clip and not accumulates else None,
    )


def _check_supported(optimizer: Any) -> None:
    """Raise ConfigError if an optimizer cannot be divided over devices."""
    name = type(optimizer).__name__
    if name in _UNSUPPORTED:
        raise ConfigError(f"the optimizer {name} cannot be used: {_UNSUPPORTED[name]}")
    if optimizer.gradient_accumulation_steps and optimizer.global_clipnorm:
        raise ConfigError(
            f"the optimizer {name} has gradient_accumulation_steps and global_clipnorm, whose norm"
            " would be only of one device's weights: use --micro-batches, or clipnorm"
        )


def check_settings_of_compiled(config: TrainConfig, optimizer: Any) -> None:
    """Raise ConfigError if a setting contradicts the optimizer that a model is compiled with."""
    contradicting = [name for name in _RECIPE_SETTINGS if getattr(config, name) is not None]
    if config.schedule != "one_cycle":
        contradicting.append("schedule")
    if contradicting:
        raise ConfigError(
            f"{flag_name(contradicting[0])}: the model is compiled with {type(optimizer).__name__},"
            " which decides this; set it there, by a keyword argument of the model's function: a"
            " setting model.NAME"
        )


def _fuse(optimizer: Any) -> Optimizer | None:
    kind = type(optimizer)
    if kind in (keras.optimizers.Adam, keras.optimizers.AdamW) and not optimizer.amsgrad:
        return Adam(beta_1=optimizer.beta_1, beta_2=optimizer.beta_2, epsilon=optimizer.epsilon)
    if kind is keras.optimizers.RMSprop and not optimizer.centered:
        return RmsProp(momentum=optimizer.momentum, rho=optimizer.rho, epsilon=optimizer.epsilon)
    if kind is keras.optimizers.SGD:
        momentum, is_nesterov = optimizer.momentum, optimizer.nesterov
        return KerasSgd(momentum=momentum, is_nesterov=is_nesterov) if momentum else PlainSgd()
    return None


class KerasOptimizer(Optimizer):
    """A Keras optimizer on a piece of the weights, or on the layers in it."""

    def __init__(
        self,
        original: Any,
        *,
        needs_layers: bool,
        decays: Sequence[bool],
        layers: Sequence[tuple[int, Any]] = (),
        is_shared: bool = False,
    ):
        self._original, self.needs_layers, self._decays = original, needs_layers, decays
        self._layers, self._lock = layers, Lock(is_shared=is_shared)
        self._copies: list[Any] = []
        self._shadows: list[Any] = []

    def for_piece(self, layers: Sequence[tuple[int, Any]], *, is_shared: bool) -> Optimizer:
        return KerasOptimizer(
            self._original,
            needs_layers=self.needs_layers,
            decays=self._decays,
            layers=layers,
            is_shared=is_shared,
        )

    def make_slots(self, weights: tf.Variable) -> dict[str, tf.Variable]:
        if not self.needs_layers:
            copy = self._add_copy(weights, decays=False)
            prefix = f"{weights.name.replace(':', '_')}_"
            return {
                slot.name.removeprefix(prefix)
                if prefix in slot.name
                else f"slot_{number}": slot.value
                for number, slot in enumerate(_slots(copy))
            }
        values = split_flat(weights.read_value(), [layer for _, layer in self._layers])
        slots: dict[str, tf.Variable] = {}
        for (number, layer), value in zip(self._layers, values, strict=True):
            shadow = keras.Variable(value, name=layer.name)
            shadow._path, shadow.constraint = layer.path, layer.constraint
            copy = self._add_copy(shadow, decays=self._decays[number])
            names = (f"layer_{number}/{index}" for index in range(len(_slots(copy))))
            slots.update(zip(names, (slot.value for slot in _slots(copy)), strict=True))
        return slots

    def apply(
        self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: OptimizerStep
    ) -> None:
        self._lock.run(lambda: self._update(weights, gradient, step))

    def apply_rows(
        self, weights: tf.Variable, slots: Slots, rows: tf.IndexedSlices, step: OptimizerStep
    ) -> None:
        """Apply the gradient of some rows, each given once.

        Adagrad changes no others, but Keras' code would read them all.
        """
        if type(self._original) is not keras.optimizers.Adagrad:
            super().apply_rows(weights, slots, rows, step)
            return
        [accumulator] = slots.values()
        squares = tf.IndexedSlices(tf.square(rows.values), rows.indices)
        with tf.control_dependencies([accumulator.scatter_add(squares)]):
            sums = tf.gather(accumulator, rows.indices)
        change = step.learning_rate * rows.values * tf.math.rsqrt(sums + self._original.epsilon)
        weights.scatter_sub(tf.IndexedSlices(change, rows.indices))

    def _update(
        self, weights: tf.Variable, gradient: tf.Tensor, step: OptimizerStep
    ) -> list[tf.Tensor]:
        variables, gradients = self._shadows or [weights], [gradient]
        if self._shadows:
            gradients, values = (split_flat(flat, self._shadows) for flat in (gradient, weights))
            for shadow, value in zip(self._shadows, values, strict=True):
                shadow.value.assign(value)
        for copy, variable, part in zip(self._copies, variables, gradients, strict=True):
            copy._iterations.assign(step.number - 1)
            # Adafactor takes a callable for a schedule, which it uses as it is.
            is_schedule = callable(self._original._learning_rate)
            copy._learning_rate = (
                (lambda: step.learning_rate) if is_schedule else step.learning_rate
            )
            _apply(copy, part, variable)
        if self._shadows:
            weights.assign(join_flat([shadow.value for shadow in self._shadows]))
        return []

    def _add_copy(self, variable: Any, *, decays: bool) -> Any:
        copy = _copy(self._original)
        copy.use_ema, copy.loss_scale_factor = False, None
        copy._exclude_from_weight_decay_cache = {}
        if not copy.gradient_accumulation_steps:
            copy.clipnorm = copy.clipvalue = copy.global_clipnorm = None
        if not self.needs_layers and not copy.gradient_accumulation_steps:
            copy.weight_decay = None
        copy.build([variable])
        if self.needs_layers:
            key = copy._var_key(variable)
            copy._exclude_from_weight_decay_cache[key] = decays
            self._shadows.append(variable)
        self._copies.append(copy)
        return copy


def _slots(copy: Any) -> list[Any]:
    """Return the variables of an optimizer besides its count of steps and learning rate."""
    known = {id(copy._iterations), id(copy._learning_rate)}
    return [variable for variable in copy.variables if id(variable) not in known]


def _copy(optimizer: Any) -> Any:
    """Return a new optimizer with the same settings, but a number as its learning rate."""
    rate, optimizer._learning_rate = optimizer._learning_rate, None
    try:
        config = optimizer.get_config()
    finally:
        optimizer._learning_rate = rate
    return type(optimizer).from_config({**config, "learning_rate": 0.5})


def _apply(copy: Any, gradient: tf.Tensor, variable: Any) -> None:
    # Calls for parameter servers are traced in the strategy's scope, where Keras' optimizers want
    # to merge replicas. There are none.
    distribute_lib._push_per_thread_mode(distribute_lib._get_default_replica_mode())
    try:
        copy.apply([gradient], [variable])
    finally:
        distribute_lib._pop_per_thread_mode()
