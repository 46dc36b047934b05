"""Rows of a large embedding that are updated late: when they are next read.

Momentum, weight decay and averaging change every row in every step. For a row without a gradient
this is linear in what the row held at its last gradient, and the factors are the same for all rows
whose last gradient was as many steps ago. So each step updates a table of these factors instead of
the rows, and a row that is read is brought up to date by one line of the table.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.training.optimizers.base import FusedOptimizer, Lock, OptimizerStep
from trainer.training.optimizers.rules import Average

# Steps after which all rows are brought up to date: the length of the table.
_MOST_STEPS = 4096
# Rows that are read at once if all are: their terms need memory.
_CHUNK = 2**16


class LateRows:
    """The rows of a piece of an embedding: its weights, slots and average."""

    def __init__(
        self,
        rule: FusedOptimizer,
        weights: tf.Variable,
        slots: Mapping[str, tf.Variable],
        *,
        average: tf.Variable | None = None,
        average_rule: Average | None = None,
        is_shared: bool = False,
    ):
        """Create the variables beside them; to be called on their device."""
        self._rule, self._slots, self._average_rule = rule, slots, average_rule
        self._vectors = {"weights": weights}
        if average is not None:
            self._vectors["average"] = average
        self._lock = Lock(is_shared=is_shared)
        coefficients = rule.coefficients(np.arange(1.0, _MOST_STEPS))
        # What a row is made of: these vectors, then the terms of the rule.
        num_parts = len(self._vectors) + coefficients.shape[1]
        self._coefficients = np.zeros([_MOST_STEPS - 1, num_parts])
        self._coefficients[:, len(self._vectors) :] = coefficients
        self._first = dict(zip(self._vectors, np.eye(num_parts)[:, np.newaxis], strict=False))
        # Line n has the factors of the parts for rows whose last gradient was n steps ago. In
        # float64, or a product over thousands of steps would not be exact to float32.
        self._tables = {
            name: tf.Variable(tf.repeat(first, _MOST_STEPS, axis=0), trainable=False)
            for name, first in self._first.items()
        }
        self._count = tf.Variable(tf.zeros([], tf.int64), trainable=False)
        self._last = tf.Variable(tf.zeros([weights.shape[0]], tf.int64), trainable=False)

    def fetch(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the weights of rows, up to date, without writing them."""
        ids = tf.identity(ids)
        with tf.control_dependencies([ids]):
            return self._lock.run(lambda: self._read(ids, ["weights"]))[0]

    def read(self) -> dict[str, tf.Tensor]:
        """Return weights, slots and average of all rows, up to date, without writing them."""
        with tf.device(self._last.device):
            return dict(zip(self._all, self._read_chunks(lock=self._lock), strict=True))

    def settle(self) -> None:
        """Bring all rows up to date, while no worker updates them."""
        with tf.device(self._last.device):
            self._settle()
            self.restart()

    def restart(self) -> None:
        """Take the variables' values, such as a checkpoint's, as up to date."""
        self._last.assign(tf.zeros_like(self._last))
        self._count.assign(0)

    def apply(
        self, rows: tf.IndexedSlices, step: OptimizerStep, *, decay: tf.Tensor | float
    ) -> None:
        """Apply a step: the gradient of some rows, each given once, and the decay of all weights.

        `decay` is the share that the weights lose.
        """
        inputs = (rows, step, 1 - tf.convert_to_tensor(decay))
        # On this device before the lock, within which nothing may wait for another one.
        inputs = tf.nest.map_structure(tf.identity, inputs, expand_composites=True)
        with tf.control_dependencies(tf.nest.flatten(inputs, expand_composites=True)):
            self._lock.run(lambda: self._apply(*inputs))

    @property
    def _all(self) -> dict[str, tf.Variable]:
        return {**self._vectors, **self._slots}

    def _apply(
        self, rows: tf.IndexedSlices, step: OptimizerStep, keep: tf.Tensor
    ) -> list[tf.Tensor]:
        is_due = (self._count + 1) % (_MOST_STEPS - 1) == 0
        tf.cond(is_due, self._settle, lambda: tf.constant(0))
        ids = rows.indices
        values = dict(zip(self._all, self._read(ids, self._all), strict=True))
        values["weights"] *= keep
        changed = dict(self._rule.update(values, rows.values, step))
        if self._average_rule:
            share = self._average_rule.share(step.number)
            change = share * (changed["weights"] - values["average"])
            changed["average"] = values["average"] + change
            if (is_due := self._average_rule.is_due(step.number)) is not None:
                changed["weights"] = tf.where(is_due, changed["average"], changed["weights"])
        for name, variable in self._all.items():
            variable.scatter_update(tf.IndexedSlices(changed[name], ids))
        self._last.scatter_update(tf.IndexedSlices(tf.fill(tf.shape(ids), self._count + 1), ids))
        self._advance(step, keep=keep)
        self._count.assign_add(1)
        return []

    def _advance(self, step: OptimizerStep, *, keep: tf.Tensor) -> None:
        """Add a step to the tables: each line becomes the next, changed by the step."""
        scale = tf.cast(self._rule.scale(step), tf.float64)
        before = {name: table[:-1] for name, table in self._tables.items()}
        after = {"weights": before["weights"] * tf.cast(keep, tf.float64)}
        after["weights"] += scale * self._coefficients
        if self._average_rule:
            share = tf.cast(self._average_rule.share(step.number), tf.float64)
            difference = after["weights"] - before["average"]
            after["average"] = before["average"] + share * difference
            if (is_due := self._average_rule.is_due(step.number)) is not None:
                after["weights"] = tf.where(is_due, after["average"], after["weights"])
        for name, table in self._tables.items():
            table.assign(tf.concat([self._first[name], after[name]], 0))

    def _read(self, ids: tf.Tensor, names: Iterable[str]) -> list[tf.Tensor]:
        """Return some rows, up to date, of the variables with these names."""
        gaps = self._count - tf.gather(self._last, ids)
        held = {name: tf.gather(variable, ids) for name, variable in self._all.items()}
        parts = [held[name] for name in self._vectors]
        parts += self._rule.terms(held)
        rows = []
        for name in names:
            if name in self._tables:
                factors = tf.cast(tf.gather(self._tables[name], gaps), tf.float32)
                columns = tf.unstack(factors[..., tf.newaxis], axis=1)
                rows.append(tf.add_n([a * b for a, b in zip(columns, parts, strict=True)]))
            else:
                decay = tf.pow(self._rule.decays[name], tf.cast(gaps, tf.float32))
                rows.append(held[name] * decay[:, tf.newaxis])
        return rows

    def _settle(self) -> tf.Tensor:
        for variable, values in zip(self._all.values(), self._read_chunks(), strict=True):
            variable.assign(values)
        self._last.assign(tf.fill(self._last.shape, self._count.read_value()))
        return tf.constant(0)

    def _read_chunks(self, *, lock: Lock | None = None) -> list[tf.Tensor]:
        """Return all rows of all variables, each chunk by itself under a lock."""
        num_rows = self._last.shape[0]
        num_chunks = -(-num_rows // _CHUNK)

        def read_chunk(number: tf.Tensor, arrays: list[tf.TensorArray]) -> tuple[Any, ...]:
            first = number * _CHUNK
            ids = tf.range(first, tf.minimum(first + _CHUNK, num_rows))
            values = (lock or Lock(is_shared=False)).run(lambda: self._read(ids, self._all))
            return number + 1, [a.write(number, b) for a, b in zip(arrays, values, strict=True)]

        empty = [tf.TensorArray(tf.float32, num_chunks, infer_shape=False) for _ in self._all]
        _, arrays = tf.while_loop(lambda number, _: number < num_chunks, read_chunk, (0, empty))
        return [tf.ensure_shape(array.concat(), self._vectors["weights"].shape) for array in arrays]
