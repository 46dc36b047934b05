"""Rules by which a step changes the weights, and moving averages of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.training.optimizers.base import Optimizer
from trainer.training.optimizers.schedule import KerasRate, Schedule


@dataclass(frozen=True, kw_only=True)
class Average:
    """The moving average of the weights, which is evaluated and exported.

    Ours decays faster in the first steps, and averages the state as well. That of Keras starts with
    the weights after the first step, and with `overwrite_every` replaces the weights, too.
    """

    decay: float
    is_keras: bool = False
    overwrite_every: int = 0

    @property
    def has_state(self) -> bool:
        """True if the state is averaged, too."""
        return not self.is_keras

    def share(self, step: tf.Tensor) -> tf.Tensor:
        """Return the share of a step's weights in the average after it."""
        done = tf.cast(step, tf.float32)
        # A smaller decay in the first steps, or the initial values would dominate the average.
        early = tf.where(step > 1, 1.0, 0.0) if self.is_keras else (1 + done) / (10 + done)
        return 1 - tf.minimum(self.decay, early)

    def is_due(self, step: tf.Tensor) -> tf.Tensor | None:
        """Return true if the average replaces the weights after a step; None if never."""
        return step % self.overwrite_every == 0 if self.overwrite_every else None

    def move(self, average: tf.Variable, values: tf.Variable, step: tf.Tensor) -> None:
        """Move the average of some values, after a step."""
        average.assign_add(self.share(step) * (values - average))
        if (is_due := self.is_due(step)) is not None:
            values.assign(tf.where(is_due, average, values))


@dataclass(frozen=True, kw_only=True)
class LinearPart:
    """The weights of a model's linear part, which have an optimizer and a schedule of their own.

    `segments` are (number of weights, are they linear) and make up the whole flat vector.
    """

    segments: tuple[tuple[int, bool], ...]
    optimizer: Optimizer
    schedule: Schedule


@dataclass(frozen=True, kw_only=True)
class UpdateRules:
    """Rules by which a step changes the weights of a model."""

    optimizer: Optimizer
    schedule: Schedule | KerasRate
    linear: LinearPart | None = None
    weight_decay: float = 0.0
    decay_mask: tf.Tensor | None = None
    """The factor of the decay of each weight in the flat vector; None for no decay."""
    average: Average | None = None
    layers: Sequence[Any] = ()
    """The variables that make up the flat vector, for an optimizer that needs whole layers."""
    clip_norm: float = 0.0
    """The largest norm of a gradient; 0 for any."""
    clip: Callable[[list[tf.Tensor]], list[tf.Tensor]] | None = None
    """Clip the gradients of all variables as a compiled optimizer does."""
