"""Rows that are updated when they are read: the same as those that are updated in each step."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.training.model.embeddings import EmbeddingPlace
from trainer.training.optimizers import late_rows
from trainer.training.optimizers.fused import (
    Adagrad,
    Adam,
    KerasSgd,
    PlainSgd,
    RmsProp,
    Sgd,
)
from trainer.training.optimizers.rules import Average, UpdateRules
from trainer.training.optimizers.schedule import Schedule
from trainer.training.parameters import Parameters
from trainer.training.step import apply_gradient

STEPS, NUM_ROWS, SIZE = 150, 40, 3
CPU = "/device:CPU:0"
SCHEDULE = Schedule(peak=0.02, total_steps=STEPS)
# Each with its vectors of slots, weight decay, and average.
CASES = {
    "adam": (Adam(), 0.5, Average(decay=0.9)),
    "adam-many-terms": (Adam(beta_2=0.98), 0.0, None),
    "sgd": (Sgd(), 0.5, None),
    "keras-sgd": (KerasSgd(momentum=0.8, is_nesterov=False), 0.0, Average(decay=0.9)),
    "rmsprop": (RmsProp(momentum=0.5), 0.5, None),
    "plain-sgd": (PlainSgd(), 0.5, Average(decay=0.9, is_keras=True, overwrite_every=7)),
    "adagrad": (Adagrad(), 0.0, Average(decay=0.9)),
}


def make_parameters(case, *, by_rows=True, num_pieces=1, num_counters=0):
    optimizer, decay, average = CASES[case]
    initial = np.random.default_rng(1).normal(size=NUM_ROWS * SIZE).astype(np.float32)
    place = EmbeddingPlace(start=0, num_rows=NUM_ROWS, size=SIZE, ids_per_example=1)
    return Parameters(
        tf.constant(initial),
        devices=[CPU] * (num_pieces if by_rows else 1),
        rules=UpdateRules(
            optimizer=optimizer,
            schedule=SCHEDULE,
            weight_decay=decay,
            decay_mask=tf.ones([NUM_ROWS * SIZE]),
            average=average,
        ),
        num_counters=num_counters,
        embeddings=[place] if by_rows else [],
    )


def make_gradients():
    """Return (ids, gradient of their rows) of each step: few rows often, most after long gaps."""
    random = np.random.default_rng(2)
    for _ in range(STEPS):
        ids = random.permutation(np.unique(random.zipf(1.3, 3) % (NUM_ROWS - 2)))
        size = 10.0 ** random.integers(-8, 1)  # around epsilon
        values = (size * random.normal(size=(len(ids), SIZE))).astype(np.float32)
        yield tf.constant(ids, tf.int32), tf.constant(values)


def make_apply(parameters):
    """Return a function that applies the gradient of rows and returns these rows before."""

    def apply(ids, values):
        if not parameters.places:
            dense = tf.scatter_nd(ids[:, tf.newaxis], values, [NUM_ROWS, SIZE])
            before = tf.gather(tf.reshape(parameters.pull(), [NUM_ROWS, SIZE]), ids)
            apply_gradient(parameters, tf.reshape(dense, [-1]))
            return before
        before = parameters.fetch(0, ids)
        rows = [tf.IndexedSlices(values, ids)]
        apply_gradient(parameters, tf.zeros([0]), rows=rows)
        return before

    specs = (tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, SIZE], tf.float32))
    return tf.function(apply, input_signature=specs, autograph=False)


@pytest.mark.parametrize("case", CASES)
def test_late_updates_equal_those_of_each_step(case, monkeypatch):
    # All rows are brought up to date more than once, in several chunks.
    monkeypatch.setattr(late_rows, "_MOST_STEPS", 64)
    monkeypatch.setattr(late_rows, "_CHUNK", 16)
    dense, late = make_parameters(case, by_rows=False), make_parameters(case, num_counters=1)
    assert all(piece.late for piece in late.pieces if piece.group.embedding is not None)
    steps = [make_apply(parameters) for parameters in (dense, late)]
    for number, rows in enumerate(make_gradients()):
        expected, found = (step(*rows) for step in steps)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6)
        if number == 90 and case == "adam":
            # As a job that is killed and resumed with another number of servers.
            again = make_parameters(case, num_pieces=2)
            again.load(late.snapshot())
            late, steps[1] = again, make_apply(again)
    expected, found = dense.snapshot(), late.snapshot()
    assert set(found) == set(expected)
    for name in dense.vector_names:
        # Relative to the largest: both ways round thousands of times.
        error = np.max(np.abs(found[name] - expected[name])) / np.max(np.abs(expected[name]))
        assert error < 3e-6, name


def test_a_step_changes_only_its_rows_until_others_are_read():
    parameters = make_parameters("adam")

    def apply(ids):
        rows = tf.IndexedSlices(tf.ones([len(ids), SIZE]), tf.constant(ids))
        apply_gradient(parameters, tf.zeros([0]), rows=[rows])

    apply([0, 1])
    piece = parameters.pieces[-1]
    before = piece.weights.numpy()
    apply([2])
    changed = np.flatnonzero((piece.weights.numpy() != before).any(axis=1))
    assert changed.tolist() == [2]
    assert not np.allclose(parameters.fetch(0, tf.constant([1])), before[1])


def test_an_adam_that_would_need_too_many_terms_updates_all_rows():
    parameters = Parameters(
        tf.ones([4]),
        devices=[CPU],
        rules=UpdateRules(schedule=SCHEDULE, optimizer=Adam(beta_1=0.9, beta_2=0.8)),
        embeddings=[EmbeddingPlace(start=0, num_rows=2, size=2, ids_per_example=1)],
    )
    assert [piece.late for piece in parameters.pieces if piece.group.embedding == 0] == [None]
