"""Optimizers, each a fused operation of TensorFlow on the flat vector of weights.

A fused operation runs where the variable is, under its lock, so no update is lost when several
workers apply gradients at once. It is two to three times as fast as the same rule in Keras
(benchmarks/optimizers.py), which reads and writes the vector several times; so a compiled Adam,
AdamW, SGD or RMSprop is one of these too. All others are Keras' own: see keras_optimizers.py.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import tensorflow as tf

from trainer.errors import ConfigError
from trainer.workloads.base import Recipe

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7
_RHO = 0.9
# TensorFlow's default: with zero the first step would be infinitely large.
_FIRST_ACCUMULATOR = 0.1


class Optimizer(abc.ABC):
    """Update rule for a vector of weights and its slots, the optimizer's variables."""

    allows_decay: bool = True
    """False if the weights must not be changed by anything else, such as weight decay."""
    needs_layers: bool = False
    """True if the rule of a weight depends on the others of its layer: layers are not cut."""

    def for_piece(self, layers: Sequence[tuple[int, Any]], *, is_shared: bool) -> "Optimizer":
        """Return the optimizer of a piece of the weights.

        `layers` are the numbers and Keras variables in the piece, if layers are not cut. Several
        workers update a shared piece at once.
        """
        del layers, is_shared
        return self

    @abc.abstractmethod
    def make_slots(self, weights: tf.Variable) -> dict[str, tf.Variable]:
        """Create the slots of a vector of weights, by name; to be called on its device."""

    @abc.abstractmethod
    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step, counted from 1."""

    def apply_rows(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        rows: tf.IndexedSlices,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of some rows, each given once; that of the others is zero.

        Most rules change weights whose gradient is zero, too, such as by a momentum: the server
        then updates all rows. The result is the same for those that override this.
        """
        gradient = tf.scatter_nd(rows.indices[:, tf.newaxis], rows.values, weights.shape)
        self.apply(weights, slots, gradient, step=step, learning_rate=learning_rate)


class FusedOptimizer(Optimizer):
    """Optimizer whose update is one operation; its slots are vectors of the weights' size."""

    slot_names: ClassVar[tuple[str, ...]]
    first_values: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Initial values of the slots that do not start at zero."""

    def make_slots(self, weights: tf.Variable) -> dict[str, tf.Variable]:
        """Create the slots of a vector of weights, by name; to be called on its device."""
        return {
            name: tf.Variable(tf.fill(weights.shape, self.first_values.get(name, 0.0)))
            for name in self.slot_names
        }


@dataclass(frozen=True, kw_only=True)
class Adam(FusedOptimizer):
    """Adam: Kingma and Ba, 2015.

    Its moments decay in every step, and change a weight whose gradient is zero. If it is lazy, the
    rows of a large embedding that are not in a batch stay as they are: another result, but faster.
    """

    beta_1: float = _BETA_1
    beta_2: float = _BETA_2
    epsilon: float = _EPSILON
    is_lazy: bool = False
    slot_names = ("momentum", "velocity")

    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step, counted from 1."""
        exponent = tf.cast(step, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=weights.handle,
            m=slots["momentum"].handle,
            v=slots["velocity"].handle,
            beta1_power=tf.pow(self.beta_1, exponent),
            beta2_power=tf.pow(self.beta_2, exponent),
            lr=learning_rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
            use_locking=True,
        )

    def apply_rows(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        rows: tf.IndexedSlices,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of some rows, each given once."""
        if not self.is_lazy:
            super().apply_rows(weights, slots, rows, step=step, learning_rate=learning_rate)
            return
        exponent = tf.cast(step, tf.float32)
        correction = tf.sqrt(1 - tf.pow(self.beta_2, exponent)) / (
            1 - tf.pow(self.beta_1, exponent)
        )
        momentum = _decay_rows(slots["momentum"], self.beta_1, rows.values, rows.indices)
        velocity = _decay_rows(slots["velocity"], self.beta_2, rows.values**2, rows.indices)
        change = learning_rate * correction * momentum / (tf.sqrt(velocity) + self.epsilon)
        weights.scatter_sub(tf.IndexedSlices(change, rows.indices))


@dataclass(frozen=True, kw_only=True)
class Sgd(FusedOptimizer):
    """Gradient descent with Nesterov momentum."""

    momentum: float = 0.9
    slot_names = ("momentum",)

    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step."""
        del step
        tf.raw_ops.ResourceApplyMomentum(
            var=weights.handle,
            accum=slots["momentum"].handle,
            lr=learning_rate,
            grad=gradient,
            momentum=self.momentum,
            use_locking=True,
            use_nesterov=True,
        )


@dataclass(frozen=True, kw_only=True)
class KerasSgd(FusedOptimizer):
    """Gradient descent as in Keras, whose momentum sums updates, not gradients.

    The two differ while the learning rate changes.
    """

    momentum: float
    is_nesterov: bool
    slot_names = ("momentum",)

    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step."""
        del step
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=weights.handle,
            accum=slots["momentum"].handle,
            lr=learning_rate,
            grad=gradient,
            momentum=self.momentum,
            use_locking=True,
            use_nesterov=self.is_nesterov,
        )


@dataclass(frozen=True, kw_only=True)
class PlainSgd(FusedOptimizer):
    """Gradient descent without momentum."""

    slot_names = ()

    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step."""
        del slots, step
        tf.raw_ops.ResourceApplyGradientDescent(
            var=weights.handle, alpha=learning_rate, delta=gradient, use_locking=True
        )

    def apply_rows(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        rows: tf.IndexedSlices,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of some rows, each given once."""
        del slots, step
        weights.scatter_sub(tf.IndexedSlices(learning_rate * rows.values, rows.indices))


@dataclass(frozen=True, kw_only=True)
class Adagrad(FusedOptimizer):
    """Adagrad: Duchi, Hazan and Singer, 2011."""

    slot_names = ("accumulator",)
    first_values = MappingProxyType({"accumulator": _FIRST_ACCUMULATOR})

    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step."""
        del step
        tf.raw_ops.ResourceApplyAdagradV2(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            lr=learning_rate,
            epsilon=_EPSILON,
            grad=gradient,
            use_locking=True,
        )

    def apply_rows(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        rows: tf.IndexedSlices,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of some rows, each given once."""
        del step
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            lr=learning_rate,
            epsilon=_EPSILON,
            grad=rows.values,
            indices=rows.indices,
            use_locking=True,
        )


@dataclass(frozen=True, kw_only=True)
class RmsProp(FusedOptimizer):
    """RMSprop: Tieleman and Hinton, 2012; optionally with momentum."""

    momentum: float = 0.0
    rho: float = _RHO
    epsilon: float = _EPSILON
    slot_names = ("mean_square", "momentum")

    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step."""
        del step
        tf.raw_ops.ResourceApplyRMSProp(
            var=weights.handle,
            ms=slots["mean_square"].handle,
            mom=slots["momentum"].handle,
            lr=learning_rate,
            rho=self.rho,
            momentum=self.momentum,
            epsilon=self.epsilon,
            grad=gradient,
            use_locking=True,
        )


@dataclass(frozen=True, kw_only=True)
class Ftrl(FusedOptimizer):
    """FTRL-Proximal: McMahan and others, 2013. For linear weights, which start at zero.

    Each step computes the weights from sums over all steps so far, which discards any other change
    of the weights. A learning rate that falls to zero would make those sums useless.
    """

    slot_names = ("accumulator", "linear")
    first_values = MappingProxyType({"accumulator": _FIRST_ACCUMULATOR})
    allows_decay = False

    def apply(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        gradient: tf.Tensor,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of a step."""
        del step
        tf.raw_ops.ResourceApplyFtrl(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            linear=slots["linear"].handle,
            grad=gradient,
            lr=learning_rate,
            l1=0.0,
            l2=0.0,
            lr_power=-0.5,
            use_locking=True,
        )

    def apply_rows(
        self,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        rows: tf.IndexedSlices,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        """Apply the gradient of some rows, each given once.

        Rows that were in no example yet keep their first values, even those that are not zero.
        """
        del step
        tf.raw_ops.ResourceSparseApplyFtrl(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            linear=slots["linear"].handle,
            grad=rows.values,
            indices=rows.indices,
            lr=learning_rate,
            l1=0.0,
            l2=0.0,
            lr_power=-0.5,
            use_locking=True,
        )


def _decay_rows(slot: tf.Variable, decay: float, values: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Move rows of a moving average towards the values; return them. No worker's change is lost."""
    tf.raw_ops.ResourceScatterMul(resource=slot.handle, indices=ids, updates=decay)
    slot.scatter_add(tf.IndexedSlices((1 - decay) * values, ids))
    return tf.gather(slot, ids)


def make_lazy(optimizer: Optimizer) -> Optimizer:
    """Return a lazy Adam for --lazy-adam; ConfigError for another optimizer."""
    if not isinstance(optimizer, Adam):
        raise ConfigError(
            f"--lazy-adam: the optimizer is {type(optimizer).__name__}, not Adam: leave it out"
        )
    return replace(optimizer, is_lazy=True)


def make_optimizer(recipe: Recipe) -> Optimizer:
    """Return the optimizer of a recipe."""
    kind = _KINDS[recipe.optimizer]
    return kind() if recipe.momentum is None else kind(momentum=recipe.momentum)


def make_linear_optimizer(recipe: Recipe) -> Optimizer:
    """Return the optimizer of the linear part, for a recipe that has a separate one."""
    return _KINDS[recipe.linear_optimizer]()


_KINDS: Mapping[str, type] = {
    "adam": Adam,
    "sgd": Sgd,
    "adagrad": Adagrad,
    "rmsprop": RmsProp,
    "ftrl": Ftrl,
}
