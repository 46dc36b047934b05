"""Optimizers, each a fused operation of TensorFlow on the flat vector of weights.

A fused operation runs where the variable is, under its lock, so no update is lost when several
workers apply gradients at once. Keras optimizers read, then write, and do lose updates; they also
transfer every slot to the worker and back.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import tensorflow as tf

from trainer.workloads.base import Recipe

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7
_RHO = 0.9
# TensorFlow's default: with zero the first step would be infinitely large.
_FIRST_ACCUMULATOR = 0.1


@dataclass(frozen=True, kw_only=True)
class Optimizer(abc.ABC):
    """Update rule for a vector of weights and its slots, vectors of the same size."""

    slot_names: ClassVar[tuple[str, ...]]
    first_values: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Initial values of the slots that do not start at zero."""
    allows_decay: ClassVar[bool] = True
    """False if the weights must not be changed by anything else, such as weight decay."""

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


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam: Kingma and Ba, 2015."""

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
            beta1_power=tf.pow(_BETA_1, exponent),
            beta2_power=tf.pow(_BETA_2, exponent),
            lr=learning_rate,
            beta1=_BETA_1,
            beta2=_BETA_2,
            epsilon=_EPSILON,
            grad=gradient,
            use_locking=True,
        )


@dataclass(frozen=True, kw_only=True)
class Sgd(Optimizer):
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
class Adagrad(Optimizer):
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


@dataclass(frozen=True, kw_only=True)
class RmsProp(Optimizer):
    """RMSprop: Tieleman and Hinton, 2012; optionally with momentum."""

    momentum: float = 0.0
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
            rho=_RHO,
            momentum=self.momentum,
            epsilon=_EPSILON,
            grad=gradient,
            use_locking=True,
        )


@dataclass(frozen=True, kw_only=True)
class Ftrl(Optimizer):
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
