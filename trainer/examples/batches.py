"""The rows of each training batch, and the random numbers that augment them.

The rows of batch n are a pure function of (seed, n): nothing is replayed to resume, and any worker
can compute any batch. Each example is used exactly once per epoch, for any number of workers and
files, and the last batch of an epoch has the rest of the examples: as in Keras' `fit`.
"""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

# With the 4 rounds of tf.random.experimental.index_shuffle the permutations of two epochs are so
# alike that two of a million examples meet in a batch again up to 160 times too often.
_SHUFFLE_ROUNDS = 12


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Division of the examples of each epoch into batches of `size`, the last one smaller.

    The methods take a step counted from 0, as a number or a tensor.
    """

    size: int
    num_examples: int
    seed: int = 0
    steps_per_block: int = 0
    """Steps whose examples are in one table, if the examples are streamed; else 0."""

    @property
    def per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return -(-self.num_examples // self.size)

    @property
    def last_size(self) -> int:
        """The number of examples in the last batch of an epoch."""
        return self.num_examples - (self.per_epoch - 1) * self.size

    @property
    def width(self) -> int:
        """The number of examples in the largest batch."""
        return min(self.size, self.num_examples)

    def start(self, step: Any) -> Any:
        """Return the number of examples in all batches before a step's."""
        return step // self.per_epoch * self.num_examples + step % self.per_epoch * self.size

    def is_last(self, step: Any) -> Any:
        """Return True if a step's batch is the last one of its epoch."""
        return step % self.per_epoch == self.per_epoch - 1

    def rows(self, index: tf.Tensor) -> tf.Tensor:
        """Return the rows [width] of training batch `index`, or [n, width] of n batches.

        They are rows of the whole split's table or, of streamed examples, of the table of the
        batch's block. Each epoch, or its share of a block, is a separate permutation. A row repeats
        at the end of a smaller batch.
        """
        index = tf.cast(index, tf.int64)[..., tf.newaxis]
        epochs, starts = index // self.per_epoch, self.start(index)
        firsts, lasts = epochs * self.num_examples, (epochs + 1) * self.num_examples - 1
        numbers = origins = tf.zeros_like(index)
        if self.steps_per_block:
            blocks = index // self.steps_per_block
            numbers, origins = 1 + blocks, self.start(blocks * self.steps_per_block)
            ends = self.start((blocks + 1) * self.steps_per_block)
            firsts, lasts = tf.maximum(firsts, origins), tf.minimum(lasts, ends - 1)
        positions = tf.minimum(starts + tf.range(self.width, dtype=tf.int64), lasts)
        seed = tf.cast(self.seed, tf.int64)
        rows = _shuffle(positions - firsts, seed, epochs, numbers, last=lasts - firsts)
        return rows + firsts - origins if self.steps_per_block else rows

    def noise(self, index: tf.Tensor, rows: tf.Tensor, *, num_noise: int) -> tf.Tensor:
        """Return random numbers in [0, 1) that augment the rows of a batch: [batch, num_noise].

        In an epoch each number is spread evenly over the examples. In every second epoch an example
        has the numbers of the epoch before, moved by a half: an image that was mirrored is not now
        (Jordan, 2024, section 3.6, "alternating flip"). Streamed rows have no fixed numbers, and
        theirs are independent.
        """
        index, seed = tf.cast(index, tf.int64), tf.cast(self.seed, tf.int64)
        noise = tf.random.stateless_uniform([tf.size(rows), num_noise], tf.stack([seed, index]))
        if self.steps_per_block:
            return noise
        epoch, num_examples = index // self.per_epoch, self.num_examples
        columns = tf.range(1, 1 + num_noise, dtype=tf.int64)
        strata = _shuffle(rows[:, tf.newaxis], seed, epoch // 2, columns, last=num_examples - 1)
        numbers = (tf.cast(strata, tf.float32) + noise) / num_examples
        return (numbers + tf.cast(epoch % 2, tf.float32) / 2) % 1


def _shuffle(numbers: tf.Tensor, *seeds: Any, last: Any) -> tf.Tensor:
    """Return where permutations of 0 to `last` move numbers, given three seeds of each."""
    last = tf.cast(last, tf.int64)
    shape = tf.shape(sum([numbers, *seeds, last]))
    columns = [tf.reshape(tf.broadcast_to(part, shape), [-1]) for part in (numbers, *seeds, last)]
    # tf.random.experimental.index_shuffle pads a matrix of seeds along the wrong axis (2.21).
    moved = tf.raw_ops.RandomIndexShuffle(
        index=columns[0],
        seed=tf.stack(columns[1:4], axis=1),
        max_index=columns[4],
        rounds=_SHUFFLE_ROUNDS,
    )
    return tf.reshape(moved, shape)
