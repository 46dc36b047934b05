"""Optimizers: update rules for the flat vector of weights, or for some rows of it; their lock."""

import abc
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

Slots = Mapping[str, tf.Variable]
"""The variables of an optimizer, by name."""
Rows = Mapping[str, tf.Tensor]
"""Rows of weights, under the name `weights`, and of slots: [number of rows, size] each."""


class OptimizerStep(NamedTuple):
    """The number of a step, counted from 1, and its learning rate."""

    number: tf.Tensor
    learning_rate: tf.Tensor


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
        return self

    @abc.abstractmethod
    def make_slots(self, weights: tf.Variable) -> dict[str, tf.Variable]:
        """Create the slots of a vector of weights, by name; to be called on its device."""

    @abc.abstractmethod
    def apply(
        self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: OptimizerStep
    ) -> None:
        """Apply the gradient of a step."""

    def apply_rows(
        self, weights: tf.Variable, slots: Slots, rows: tf.IndexedSlices, step: OptimizerStep
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

    With a row rule, steps without a gradient can be computed later, many at once. In such steps
    each slot is multiplied by a constant, and the weights change by a sum of terms. A term is a
    function of the row's slots in its last step with a gradient, times a coefficient that is the
    same for all rows: the n-th step's without a gradient, times the step's scale.
    """

    operation: ClassVar[Callable[..., Any]]
    row_operation: ClassVar[Callable[..., Any] | None] = None
    """The same for some rows, which keeps the others; without it all rows are updated."""
    slot_names: ClassVar[tuple[str, ...]]
    arguments: ClassVar[tuple[str, ...]]
    """The operation's names for the slots."""
    first_value: ClassVar[float] = 0.0
    """Of the first slot."""

    @property
    def has_row_rule(self) -> bool:
        """True if steps without a gradient can be computed later."""
        return type(self).update is not FusedOptimizer.update

    def make_slots(self, weights: tf.Variable) -> dict[str, tf.Variable]:
        return {
            name: tf.Variable(tf.fill(weights.shape, 0.0 if number else self.first_value))
            for number, name in enumerate(self.slot_names)
        }

    def options(self, step: OptimizerStep) -> dict[str, Any]:
        """Return the operation's arguments besides variables, gradient and learning rate."""
        return {}

    def apply(
        self, weights: tf.Variable, slots: Slots, gradient: tf.Tensor, step: OptimizerStep
    ) -> None:
        self.operation(**self._arguments(weights, slots, step), grad=gradient)

    def apply_rows(
        self, weights: tf.Variable, slots: Slots, rows: tf.IndexedSlices, step: OptimizerStep
    ) -> None:
        if self.row_operation is None:
            super().apply_rows(weights, slots, rows, step)
        else:
            arguments = self._arguments(weights, slots, step)
            self.row_operation(**arguments, grad=rows.values, indices=rows.indices)

    def _arguments(self, weights: tf.Variable, slots: Slots, step: OptimizerStep) -> dict[str, Any]:
        names = zip(self.slot_names, self.arguments, strict=True)
        return {
            "var": weights.handle,
            "lr": step.learning_rate,
            "use_locking": True,
            **{argument: slots[name].handle for name, argument in names},
            **self.options(step),
        }

    @property
    def decays(self) -> Mapping[str, float]:
        """The factor of each slot in a step without a gradient, rounded to float32."""
        return MappingProxyType({})

    def update(self, rows: Rows, gradient: tf.Tensor, step: OptimizerStep) -> Rows:
        """Return rows after a step with a gradient."""
        raise NotImplementedError

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        """Return the terms of rows, each of the shape of the rows."""
        return []

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients [number of gaps, number of terms] of the n-th steps."""
        return np.zeros([len(gaps), 0])

    def scale(self, step: OptimizerStep) -> tf.Tensor:
        """Return the factor of all coefficients in a step."""
        return tf.ones([])


def to_float32(number: float) -> float:
    """Return a number as TensorFlow's operations on float32 take it."""
    return float(np.float32(number))


class Lock:
    """A critical section on the device where it is created; none if one worker updates alone."""

    def __init__(self, *, is_shared: bool):
        # Without a name of its own, it would be another piece's section on the same server.
        self._section = tf.CriticalSection(shared_name=uuid.uuid4().hex) if is_shared else None

    def run(self, function: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Call a function that reads or changes variables, and return its tensors.

        All of it is done before another call begins.
        """
        if self._section is None:
            return function()
        tensors: list[tf.Tensor] = self._section.execute(lambda: _finish(function))
        return tensors[:-1]


def _finish(function: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
    """Return the tensors of a function, and one more: there may be none."""
    graph = tf.compat.v1.get_default_graph()
    first = 0 if tf.executing_eagerly() else len(graph.get_operations())
    tensors = function()
    done = [] if tf.executing_eagerly() else graph.get_operations()[first:]
    # The critical section ends when its results are there: after all changes.
    with tf.control_dependencies(done):
        return [*map(tf.identity, tensors), tf.constant(0)]
