"""Optimizers, each a fused operation of TensorFlow on the flat vector of weights.

A compiled Adam, AdamW, SGD or RMSprop is one of these, too. All others are Keras' own code: see
`compiled.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.training.optimizers.adam import Adam
from trainer.training.optimizers.base import (
    FusedOptimizer,
    Optimizer,
    RowRule,
    Rows,
    Slots,
    Step,
    to_float32,
)
from trainer.workloads.base import Recipe

_EPSILON = 1e-7
_RHO = 0.9
# TensorFlow's default: with zero the first step would be infinitely large.
_FIRST_ACCUMULATOR = 0.1


@dataclass(frozen=True, kw_only=True)
class Momentum(FusedOptimizer, RowRule):
    """Gradient descent with momentum: base of two ways to sum it, each an `operation`."""

    operation: ClassVar[Callable[..., Any]]
    momentum: float = 0.9
    is_nesterov: bool = True
    slot_names = ("momentum",)

    def apply(self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: Step) -> None:
        """Apply the gradient of a step."""
        self.operation(
            var=weights.handle,
            accum=slots["momentum"].handle,
            lr=step.learning_rate,
            grad=gradient,
            momentum=self.momentum,
            use_locking=True,
            use_nesterov=self.is_nesterov,
        )

    @property
    def decays(self) -> Mapping[str, float]:
        """The factor of each slot in a step without a gradient, rounded to float32."""
        return {"momentum": to_float32(self.momentum)}

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        """Return the terms of rows, each of the shape of the rows."""
        return [rows["momentum"]]

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients [number of gaps, 1] of the n-th steps."""
        powers = gaps + 1 if self.is_nesterov else gaps
        return (self.decays["momentum"] ** powers)[:, np.newaxis]


@dataclass(frozen=True, kw_only=True)
class Sgd(Momentum):
    """Gradient descent with Nesterov momentum."""

    operation = staticmethod(tf.raw_ops.ResourceApplyMomentum)

    def update(self, rows: Rows, gradient: tf.Tensor, step: Step) -> Rows:
        """Return rows after a step with a gradient."""
        momentum = self.momentum * rows["momentum"] + gradient
        change = gradient + self.momentum * momentum if self.is_nesterov else momentum
        weights = rows["weights"] - step.learning_rate * change
        return {"weights": weights, "momentum": momentum}

    def scale(self, step: Step) -> tf.Tensor:
        """Return the factor of all coefficients in a step."""
        return -step.learning_rate


@dataclass(frozen=True, kw_only=True)
class KerasSgd(Momentum):
    """Gradient descent as in Keras, whose momentum sums updates, not gradients.

    The two differ while the learning rate changes.
    """

    operation = staticmethod(tf.raw_ops.ResourceApplyKerasMomentum)

    def update(self, rows: Rows, gradient: tf.Tensor, step: Step) -> Rows:
        """Return rows after a step with a gradient."""
        update = -step.learning_rate * gradient
        momentum = self.momentum * rows["momentum"] + update
        change = update + self.momentum * momentum if self.is_nesterov else momentum
        return {"weights": rows["weights"] + change, "momentum": momentum}


@dataclass(frozen=True, kw_only=True)
class PlainSgd(FusedOptimizer, RowRule):
    """Gradient descent without momentum."""

    slot_names = ()
    keeps_other_rows = True
    decays = MappingProxyType({})

    def apply(self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: Step) -> None:
        """Apply the gradient of a step."""
        del slots
        tf.raw_ops.ResourceApplyGradientDescent(
            var=weights.handle, alpha=step.learning_rate, delta=gradient, use_locking=True
        )

    def apply_rows(
        self, weights: tf.Variable, slots: Slots, rows: tf.IndexedSlices, step: Step
    ) -> None:
        """Apply the gradient of some rows, each given once."""
        del slots
        weights.scatter_sub(tf.IndexedSlices(step.learning_rate * rows.values, rows.indices))

    def update(self, rows: Rows, gradient: tf.Tensor, step: Step) -> Rows:
        """Return rows after a step with a gradient."""
        return {"weights": rows["weights"] - step.learning_rate * gradient}


@dataclass(frozen=True, kw_only=True)
class Adagrad(FusedOptimizer, RowRule):
    """Adagrad: Duchi, Hazan and Singer, 2011."""

    slot_names = ("accumulator",)
    keeps_other_rows = True
    decays = MappingProxyType({"accumulator": 1.0})
    first_values = MappingProxyType({"accumulator": _FIRST_ACCUMULATOR})

    def apply(self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: Step) -> None:
        """Apply the gradient of a step."""
        tf.raw_ops.ResourceApplyAdagradV2(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            lr=step.learning_rate,
            epsilon=_EPSILON,
            grad=gradient,
            use_locking=True,
        )

    def apply_rows(
        self, weights: tf.Variable, slots: Slots, rows: tf.IndexedSlices, step: Step
    ) -> None:
        """Apply the gradient of some rows, each given once."""
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            lr=step.learning_rate,
            epsilon=_EPSILON,
            grad=rows.values,
            indices=rows.indices,
            use_locking=True,
        )

    def update(self, rows: Rows, gradient: tf.Tensor, step: Step) -> Rows:
        """Return rows after a step with a gradient."""
        accumulator = rows["accumulator"] + gradient**2
        change = step.learning_rate * gradient / (tf.sqrt(accumulator) + _EPSILON)
        return {"weights": rows["weights"] - change, "accumulator": accumulator}


@dataclass(frozen=True, kw_only=True)
class RmsProp(FusedOptimizer, RowRule):
    """RMSprop: Tieleman and Hinton, 2012; optionally with momentum."""

    momentum: float = 0.0
    rho: float = _RHO
    epsilon: float = _EPSILON
    slot_names = ("mean_square", "momentum")

    def apply(self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: Step) -> None:
        """Apply the gradient of a step."""
        tf.raw_ops.ResourceApplyRMSProp(
            var=weights.handle,
            ms=slots["mean_square"].handle,
            mom=slots["momentum"].handle,
            lr=step.learning_rate,
            rho=self.rho,
            momentum=self.momentum,
            epsilon=self.epsilon,
            grad=gradient,
            use_locking=True,
        )

    @property
    def decays(self) -> Mapping[str, float]:
        """The factor of each slot in a step without a gradient, rounded to float32."""
        return {"mean_square": to_float32(self.rho), "momentum": to_float32(self.momentum)}

    def update(self, rows: Rows, gradient: tf.Tensor, step: Step) -> Rows:
        """Return rows after a step with a gradient."""
        mean_square = rows["mean_square"]
        mean_square += (gradient**2 - mean_square) * (1 - self.decays["mean_square"])
        change = step.learning_rate * gradient * tf.math.rsqrt(mean_square + self.epsilon)
        momentum = self.momentum * rows["momentum"] + change
        weights = rows["weights"] - momentum
        return {"weights": weights, "mean_square": mean_square, "momentum": momentum}

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        """Return the terms of rows, each of the shape of the rows."""
        return [-rows["momentum"]]

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients [number of gaps, 1] of the n-th steps."""
        return (self.decays["momentum"] ** gaps)[:, np.newaxis]


@dataclass(frozen=True, kw_only=True)
class Ftrl(FusedOptimizer):
    """FTRL-Proximal: McMahan and others, 2013. For linear weights, which start at zero.

    Each step computes the weights from sums over all steps so far, which discards any other change
    of the weights. A learning rate that falls to zero would make those sums useless.
    """

    slot_names = ("accumulator", "linear")
    first_values = MappingProxyType({"accumulator": _FIRST_ACCUMULATOR})
    allows_decay = False

    def apply(self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: Step) -> None:
        """Apply the gradient of a step."""
        tf.raw_ops.ResourceApplyFtrl(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            linear=slots["linear"].handle,
            grad=gradient,
            lr=step.learning_rate,
            l1=0.0,
            l2=0.0,
            lr_power=-0.5,
            use_locking=True,
        )

    def apply_rows(
        self, weights: tf.Variable, slots: Slots, rows: tf.IndexedSlices, step: Step
    ) -> None:
        """Apply the gradient of some rows, each given once.

        Rows that were in no example yet keep their first values, even those that are not zero.
        """
        tf.raw_ops.ResourceSparseApplyFtrl(
            var=weights.handle,
            accum=slots["accumulator"].handle,
            linear=slots["linear"].handle,
            grad=rows.values,
            indices=rows.indices,
            lr=step.learning_rate,
            l1=0.0,
            l2=0.0,
            lr_power=-0.5,
            use_locking=True,
        )


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
