"""Rules by which a step changes the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.training.optimizers.averages import Average
from trainer.training.optimizers.base import Optimizer
from trainer.training.optimizers.schedule import Schedule


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
    linear: LinearPart | None = None
    weight_decay: float = 0.0
    decay_mask: tf.Tensor | None = None
    """The factor of the decay of each weight in the flat vector; None for no decay."""
    average: Average | None = None
    layers: Sequence[Any] = ()
    """The variables that make up the flat vector, for an optimizer that needs whole layers."""
    rate: tf.Variable | None = None
    """The learning rate, if callbacks may change it."""
