"""The rows and random numbers of batches: each example once per epoch, as in `fit`."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.examples.batches import Batches


def rows_of(batches, step):
    """Return the rows of a step's batch, without those that fill up the last one of an epoch."""
    size = batches.last_size if batches.is_last(step) else batches.width
    return batches.rows(tf.constant(step))[:size]


@pytest.mark.parametrize(
    ("num_examples", "batch_size", "sizes"),
    [
        (1, 4, [1]),
        (2, 3, [2]),
        (10, 3, [3, 3, 3, 1]),
        (128, 128, [128]),
        (100, 7, [7] * 14 + [2]),
    ],
)
def test_each_epoch_uses_every_example_once_in_its_own_order(num_examples, batch_size, sizes):
    batches = Batches(size=batch_size, num_examples=num_examples)
    rows = [rows_of(batches, step) for step in range(3 * len(sizes))]
    assert [len(one) for one in rows] == 3 * sizes
    assert [batches.start(step) for step in range(len(sizes))] == [0, *np.cumsum(sizes)[:-1]]
    epochs = np.concatenate(rows).reshape(3, num_examples)
    for epoch in epochs:
        assert sorted(epoch) == list(range(num_examples))
    if num_examples >= 100:
        assert not np.array_equal(epochs[0], epochs[1])


@pytest.mark.parametrize("num_examples", [15_000, 300_000])
def test_the_orders_of_epochs_and_seeds_are_independent(num_examples):
    orders = [
        rows_of(Batches(size=num_examples, num_examples=num_examples, seed=seed), epoch)
        for epoch, seed in ((0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 2))
    ]
    correlations = np.corrcoef(orders)[np.triu_indices(len(orders), 1)]
    # A permutation's correlation with another has the deviation 1 / sqrt(n).
    assert np.abs(correlations).max() < 5 / num_examples**0.5
    numbers = np.arange(num_examples)
    for order in orders:
        assert abs(np.corrcoef(order, numbers)[0, 1]) < 5 / num_examples**0.5
        assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 5 / num_examples**0.5


def test_noise_is_even_over_an_epoch_and_opposite_in_the_next():
    num_examples, num_noise = 1000, 3
    batches = Batches(size=64, num_examples=num_examples, seed=3)
    noise = np.full((4, num_examples, num_noise), np.nan)
    for step in range(4 * batches.per_epoch):
        rows = rows_of(batches, step)
        drawn = batches.noise(tf.constant(step), rows, num_noise=num_noise)
        noise[step // batches.per_epoch, rows] = drawn
    assert noise.min() >= 0
    assert noise.max() < 1
    for first, second in (noise[:2], noise[2:]):
        # Each of n equal parts of [0, 1) has one example.
        assert sorted((first[:, 0] * num_examples).astype(int)) == list(range(num_examples))
        assert np.array_equal(first < 0.5, second >= 0.5)
        np.testing.assert_allclose((second - first) % 1, 0.5, atol=1 / num_examples)
    columns = np.concatenate([noise[0], noise[2]], axis=1)
    correlations = np.corrcoef(columns.T)[np.triu_indices(2 * num_noise, 1)]
    assert np.abs(correlations).max() < 5 / num_examples**0.5


def test_noise_of_streamed_examples_is_that_of_their_batch():
    rows = tf.range(64, dtype=tf.int64)
    batches = Batches(size=64, num_examples=64, seed=3, steps_per_block=1)
    first, second = (batches.noise(tf.constant(at), rows, num_noise=2) for at in (0, 1))
    assert abs(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1]) < 0.4
    other_rows = batches.noise(tf.constant(0), rows[::-1], num_noise=2)
    assert np.array_equal(first, other_rows)
