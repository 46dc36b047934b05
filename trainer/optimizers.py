"""The optimizers, each one fused operation of TensorFlow on the flat vector of weights.

A fused operation runs where the variable is, under its lock, so no update is lost when workers
push at the same time. Keras optimizers read, then write, and do lose some; they also move each
slot through the worker.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from trainer.workloads.base import Recipe

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7


@dataclass(frozen=True, kw_only=True)
class Optimizer(abc.ABC):
    """Changes a vector of weights and its slots, vectors of the same size, by a gradient."""

    slot_names: ClassVar[tuple[str, ...]]

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
        """Applies the gradient of a step, counted from 1."""


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
        """Applies the gradient of a step, counted from 1."""
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
    """Gradient descent with Nesterov's momentum."""

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
        """Applies the gradient of a step."""
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


def make_optimizer(recipe: Recipe) -> Optimizer:
    """Returns the recipe's optimizer."""
    return {"adam": Adam, "sgd": Sgd}[recipe.optimizer]()
