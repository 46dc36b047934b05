"""Optimizers, each a fused operation of TensorFlow on the flat vector of weights.

A compiled Adam, AdamW, SGD or RMSprop is one of these, too. All others are Keras' own code: see
`compiled.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.training.optimizers.base import (
    FusedOptimizer,
    Optimizer,
    OptimizerStep,
    Rows,
    to_float32,
)
from trainer.workloads.base import Recipe

_EPSILON = 1e-7
# TensorFlow's default: with zero the first step would be infinitely large.
_FIRST_ACCUMULATOR = 0.1
# Of Adam's sum over the steps in which a row of an embedding got no gradient.
_MOST_TERMS, _MOST_GAPS, _TOLERANCE = 24, 4096, 1e-7


@dataclass(frozen=True, kw_only=True)
class Sgd(FusedOptimizer):
    """Gradient descent with momentum, by default Nesterov's."""

    momentum: float = 0.9
    is_nesterov: bool = True
    operation = staticmethod(tf.raw_ops.ResourceApplyMomentum)
    slot_names, arguments = ("momentum",), ("accum",)

    def options(self, step: OptimizerStep) -> dict[str, Any]:
        return {"momentum": self.momentum, "use_nesterov": self.is_nesterov}

    @property
    def decays(self) -> Mapping[str, float]:
        return {"momentum": to_float32(self.momentum)}

    def update(self, rows: Rows, gradient: tf.Tensor, step: OptimizerStep) -> Rows:
        added = self.summand(gradient, step)
        momentum = self.momentum * rows["momentum"] + added
        change = added + self.momentum * momentum if self.is_nesterov else momentum
        return {"weights": rows["weights"] + self.scale(step) * change, "momentum": momentum}

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        return [rows["momentum"]]

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        powers = gaps + 1 if self.is_nesterov else gaps
        return (self.decays["momentum"] ** powers)[:, np.newaxis]

    def scale(self, step: OptimizerStep) -> tf.Tensor:
        return -step.learning_rate

    def summand(self, gradient: tf.Tensor, step: OptimizerStep) -> tf.Tensor:
        """Return what a step adds to the momentum."""
        return gradient


@dataclass(frozen=True, kw_only=True)
class KerasSgd(Sgd):
    """Gradient descent as in Keras, whose momentum sums updates, not gradients.

    The two differ while the learning rate changes.
    """

    operation = staticmethod(tf.raw_ops.ResourceApplyKerasMomentum)

    def scale(self, step: OptimizerStep) -> tf.Tensor:
        return tf.ones([])

    def summand(self, gradient: tf.Tensor, step: OptimizerStep) -> tf.Tensor:
        return -step.learning_rate * gradient


def _descend(*, var: tf.Tensor, lr: tf.Tensor, grad: tf.Tensor, use_locking: bool) -> None:
    tf.raw_ops.ResourceApplyGradientDescent(var=var, alpha=lr, delta=grad, use_locking=use_locking)


def _descend_rows(
    *, var: tf.Tensor, lr: tf.Tensor, grad: tf.Tensor, indices: tf.Tensor, use_locking: bool
) -> None:
    tf.raw_ops.ResourceScatterSub(resource=var, indices=indices, updates=lr * grad)


@dataclass(frozen=True, kw_only=True)
class PlainSgd(FusedOptimizer):
    """Gradient descent without momentum."""

    operation, row_operation = staticmethod(_descend), staticmethod(_descend_rows)
    slot_names, arguments = (), ()

    def update(self, rows: Rows, gradient: tf.Tensor, step: OptimizerStep) -> Rows:
        return {"weights": rows["weights"] - step.learning_rate * gradient}


@dataclass(frozen=True, kw_only=True)
class Adam(FusedOptimizer):
    """Adam: Kingma and Ba, 2015."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = _EPSILON
    operation = staticmethod(tf.raw_ops.ResourceApplyAdam)
    slot_names, arguments = ("momentum", "velocity"), ("m", "v")

    def options(self, step: OptimizerStep) -> dict[str, Any]:
        exponent = tf.cast(step.number, tf.float32)
        return {
            "beta1_power": tf.pow(self.beta_1, exponent),
            "beta2_power": tf.pow(self.beta_2, exponent),
            "beta1": self.beta_1,
            "beta2": self.beta_2,
            "epsilon": self.epsilon,
        }

    @property
    def decays(self) -> Mapping[str, float]:
        return {"momentum": to_float32(self.beta_1), "velocity": to_float32(self.beta_2)}

    @property
    def has_row_rule(self) -> bool:
        """True if a few terms are enough: not if the momentum decays slower than its divisor."""
        return self._num_terms is not None

    def update(self, rows: Rows, gradient: tf.Tensor, step: OptimizerStep) -> Rows:
        momentum, velocity = rows["momentum"], rows["velocity"]
        momentum += (gradient - momentum) * (1 - self.decays["momentum"])
        velocity += (gradient**2 - velocity) * (1 - self.decays["velocity"])
        change = self.scale(step) * momentum / (tf.sqrt(velocity) + self.epsilon)
        return {"weights": rows["weights"] - change, "momentum": momentum, "velocity": velocity}

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        """Return the terms of rows, each of the shape of the rows.

        After n steps the change is proportional to b^n m / (q^n x + epsilon), where x is the root
        of the velocity and q the root of its decay. With y = x / (x + epsilon) and d = 1 - q^n it
        is b^n m / (x + epsilon) / (1 - d y), a geometric series of d y.
        """
        root = tf.sqrt(rows["velocity"])
        terms = [-rows["momentum"] / (root + self.epsilon)]
        for _ in range(1, self._num_terms or 0):
            terms.append(terms[-1] * root / (root + self.epsilon))
        return terms

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        momentum = self.decays["momentum"] ** gaps
        gone = 1 - self.decays["velocity"] ** (gaps / 2)
        return np.stack([momentum * gone**power for power in range(self._num_terms or 0)], axis=1)

    def scale(self, step: OptimizerStep) -> tf.Tensor:
        exponent = tf.cast(step.number, tf.float32)
        correction = tf.sqrt(1 - tf.pow(self.beta_2, exponent)) / (
            1 - tf.pow(self.beta_1, exponent)
        )
        return step.learning_rate * correction

    @cached_property
    def _num_terms(self) -> int | None:
        """The number of terms that are exact to float32; None if that is more than a few."""
        gaps = np.arange(1.0, _MOST_GAPS)
        momentum, root = self.decays["momentum"] ** gaps, self.decays["velocity"] ** (gaps / 2)
        if self.beta_1 >= root[0]:
            return None
        for number in range(1, _MOST_TERMS):
            rest = np.sum(momentum * (1 - root) ** number / root)
            if rest <= _TOLERANCE * np.sum(momentum):
                return number
        return None


@dataclass(frozen=True, kw_only=True)
class Adagrad(FusedOptimizer):
    """Adagrad: Duchi, Hazan and Singer, 2011."""

    operation = staticmethod(tf.raw_ops.ResourceApplyAdagradV2)
    row_operation = staticmethod(tf.raw_ops.ResourceSparseApplyAdagradV2)
    slot_names, arguments = ("accumulator",), ("accum",)
    first_value = _FIRST_ACCUMULATOR
    decays = MappingProxyType({"accumulator": 1.0})

    def options(self, step: OptimizerStep) -> dict[str, Any]:
        return {"epsilon": _EPSILON}

    def update(self, rows: Rows, gradient: tf.Tensor, step: OptimizerStep) -> Rows:
        accumulator = rows["accumulator"] + gradient**2
        change = step.learning_rate * gradient / (tf.sqrt(accumulator) + _EPSILON)
        return {"weights": rows["weights"] - change, "accumulator": accumulator}


@dataclass(frozen=True, kw_only=True)
class RmsProp(FusedOptimizer):
    """RMSprop: Tieleman and Hinton, 2012; optionally with momentum."""

    momentum: float = 0.0
    rho: float = 0.9
    epsilon: float = _EPSILON
    operation = staticmethod(tf.raw_ops.ResourceApplyRMSProp)
    slot_names, arguments = ("mean_square", "momentum"), ("ms", "mom")

    def options(self, step: OptimizerStep) -> dict[str, Any]:
        return {"rho": self.rho, "momentum": self.momentum, "epsilon": self.epsilon}

    @property
    def decays(self) -> Mapping[str, float]:
        return {"mean_square": to_float32(self.rho), "momentum": to_float32(self.momentum)}

    def update(self, rows: Rows, gradient: tf.Tensor, step: OptimizerStep) -> Rows:
        mean_square = rows["mean_square"]
        mean_square += (gradient**2 - mean_square) * (1 - self.decays["mean_square"])
        change = step.learning_rate * gradient * tf.math.rsqrt(mean_square + self.epsilon)
        momentum = self.momentum * rows["momentum"] + change
        weights = rows["weights"] - momentum
        return {"weights": weights, "mean_square": mean_square, "momentum": momentum}

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        return [-rows["momentum"]]

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        return (self.decays["momentum"] ** gaps)[:, np.newaxis]


@dataclass(frozen=True, kw_only=True)
class Ftrl(FusedOptimizer):
    """FTRL-Proximal: McMahan and others, 2013. For linear weights, which start at zero.

    Each step computes the weights from sums over all steps so far, which discards any other change
    of the weights. A learning rate that falls to zero would make those sums useless. Of some rows,
    those that were in no example yet keep their first values, even if these are not zero.
    """

    operation = staticmethod(tf.raw_ops.ResourceApplyFtrl)
    row_operation = staticmethod(tf.raw_ops.ResourceSparseApplyFtrl)
    slot_names, arguments = ("accumulator", "linear"), ("accum", "linear")
    first_value = _FIRST_ACCUMULATOR
    allows_decay = False

    def options(self, step: OptimizerStep) -> dict[str, Any]:
        return {"l1": 0.0, "l2": 0.0, "lr_power": -0.5}


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
