"""Interfaces of optimizers: update rules for the flat vector of weights, or for some rows of it."""

import abc
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

Slots = Mapping[str, tf.Variable]
"""The variables of an optimizer, by name."""
Rows = Mapping[str, tf.Tensor]
"""Rows of weights, under the name `weights`, and of slots: [number of rows, size] each."""


class Step(NamedTuple):
    """The number of a step, counted from 1, and its learning rate."""

    number: tf.Tensor
    learning_rate: tf.Tensor


class Optimizer(abc.ABC):
    """Update rule for a vector of weights and its slots, the optimizer's variables."""

    allows_decay: bool = True
    """False if the weights must not be changed by anything else, such as weight decay."""
    needs_layers: bool = False
    """True if the rule of a weight depends on the others of its layer: layers are not cut."""
    keeps_other_rows: bool = False
    """True if `apply_rows` changes only the rows that it is given."""

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
    def apply(self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: Step) -> None:
        """Apply the gradient of a step."""

    def apply_rows(
        self, weights: tf.Variable, slots: Slots, rows: tf.IndexedSlices, step: Step
    ) -> None:
        """Apply the gradient of some rows, each given once; the other rows have gradient zero.

        Most rules change weights whose gradient is zero, too, such as by a momentum: the server
        then updates all rows. The result is the same for those that override this.
        """
        gradient = tf.scatter_nd(rows.indices[:, tf.newaxis], rows.values, weights.shape)
        self.apply(weights, slots, gradient, step)


class FusedOptimizer(Optimizer):
    """Optimizer whose update is one operation; its slots are vectors of the weights' size.

    The operation runs where the variable is, under its lock, so no update is lost when several
    workers apply gradients at once. The same rule in Keras reads and writes the vector several
    times.
    """

    slot_names: ClassVar[tuple[str, ...]]
    first_values: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Initial values of the slots that do not start at zero."""

    def make_slots(self, weights: tf.Variable) -> dict[str, tf.Variable]:
        """Create the slots of a vector of weights, by name; to be called on its device."""
        return {
            name: tf.Variable(tf.fill(weights.shape, self.first_values.get(name, 0.0)))
            for name in self.slot_names
        }


class RowRule(abc.ABC):
    """Update rule whose steps without a gradient can be computed later, many at once.

    In such steps each slot is multiplied by a constant, and the weights change by a sum of terms.
    A term is a function of the row's slots in its last step with a gradient, times a coefficient
    that is the same for all rows: the n-th step's without a gradient, times the step's scale.
    """

    @property
    def has_row_rule(self) -> bool:
        """False if these settings would need too many terms."""
        return True

    @property
    @abc.abstractmethod
    def decays(self) -> Mapping[str, float]:
        """The factor of each slot in a step without a gradient, rounded to float32."""

    @abc.abstractmethod
    def update(self, rows: Rows, gradient: tf.Tensor, step: Step) -> Rows:
        """Return rows after a step with a gradient."""

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        """Return the terms of rows, each of the shape of the rows."""
        del rows
        return []

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients [number of gaps, number of terms] of the n-th steps."""
        return np.zeros([len(gaps), 0])

    def scale(self, step: Step) -> tf.Tensor:
        """Return the factor of all coefficients in a step."""
        del step
        return tf.ones([])


def to_float32(number: float) -> float:
    """Return a number as TensorFlow's operations on float32 take it."""
    return float(np.float32(number))
