"""Large embeddings by rows: the same training as with all weights in one vector."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, optimizers

from tests.trainer.support.tiny import Tiny
from trainer.examples.batches import Batches
from trainer.training.model.embeddings import add, find_large, look_up
from trainer.training.model.flat_model import FlatModel
from trainer.training.model.objective import Objective
from trainer.training.optimizers.compiled import read_optimizer
from trainer.training.optimizers.fused import Adagrad, Adam, Ftrl
from trainer.training.optimizers.rules import Average, LinearPart, UpdateRules
from trainer.training.optimizers.schedule import Schedule
from trainer.training.parameters import Parameters
from trainer.training.step import TrainStep
from trainer.workloads.declarations.labels import Regression

STEPS, BATCH_SIZE, NUM_EXAMPLES, NUM_ROWS, NUM_IDS = 30, 6, 30, 40, 3
STEADY = Schedule(peak=0.05, total_steps=1, warmup=0, kind="constant")
CPU = "/device:CPU:0"


class Clicks(Tiny):
    """Some ids, of which few are frequent, and a number."""

    num_noise = 0

    def preprocess(self, features):
        return features["ids"]

    def example_weights(self, features, labels):
        return None

    def input_specs(self):
        return {"ids": tf.TensorSpec([None, NUM_IDS], tf.int32, name="ids")}


class DenseGradient(layers.Embedding):
    """An embedding whose gradient has all rows.

    Keras' optimizers square the gradient of an id for each of its occurrences in a batch, in the
    TensorFlow backend only. By rows, as in the flat vector, it is one gradient.
    """

    def call(self, inputs):
        return keras.ops.take(self.embeddings * 1.0, inputs, axis=0)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("shape", [(7,), (9, 4), (0, 4)])
def test_the_gradient_of_a_lookup_is_the_sum_over_each_id(shape, dtype):
    random = np.random.default_rng(3)
    weights = tf.constant(random.normal(size=(6, 5)), dtype)
    ids = tf.constant(random.integers(0, 5, shape), tf.int32)
    factors = tf.constant(random.normal(size=(*shape, 5)), dtype)
    gradients = []
    for find in (look_up, tf.gather):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            rows = find(weights, ids)
            total = tf.reduce_sum(rows * factors)
        np.testing.assert_array_equal(
            tf.cast(rows, tf.float32), np.take(tf.cast(weights, tf.float32), ids, 0)
        )
        gradients.append(tf.convert_to_tensor(tape.gradient(total, weights)))
    ours, theirs = (tf.cast(gradient, tf.float32) for gradient in gradients)
    assert gradients[0].dtype == dtype
    np.testing.assert_allclose(ours, theirs, atol=1e-5 if dtype == tf.float32 else 0.1)
    assert not np.any(ours[5])


def make_examples():
    random = np.random.default_rng(2)
    ids = (random.zipf(1.3, (NUM_EXAMPLES, NUM_IDS)) % (NUM_ROWS - 5)).astype(np.int32)
    ids[::7, 0] = -1  # counts from the end
    return ids, random.normal(size=NUM_EXAMPLES).astype(np.float32)


def make_model(kind=layers.Embedding):
    """Return a model that looks up one embedding twice, and another one of one column."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((NUM_IDS,), dtype="int32")
    shared = kind(NUM_ROWS, 5, name="shared")
    first = layers.Flatten()(shared(inputs))
    second = shared(inputs[:, ::-1])[:, 0]
    hidden = layers.Dense(4, "tanh")(layers.concatenate([first, second]))
    wide = layers.Flatten()(kind(NUM_ROWS, 1, embeddings_initializer="zeros", name="wide")(inputs))
    output = layers.Dense(1)(hidden) + keras.ops.sum(wide, axis=1, keepdims=True)
    return keras.Model(inputs, output)


def make_step(model, *, by_rows=True, num_pieces=2, linear=None, **options):
    """Return the step of a compiled model, or of one with the update rules in `options`."""
    workload = Clicks(Regression())
    found = find_large(model, lambda: tf.zeros([2, NUM_IDS], tf.int32), least_weights=NUM_ROWS)
    assert {one.layer.name for one in found} == {"shared", "wide"}
    flat = FlatModel(model, found if by_rows else ())
    if getattr(model, "optimizer", None):
        rules = read_optimizer(flat)
    else:
        rules = UpdateRules(schedule=STEADY, **options)
    if linear:
        chosen = [one.layer.embeddings for one in found if one.layer.name == "wide"]
        segments = flat.segments(chosen)
        part = LinearPart(segments=segments, optimizer=linear, schedule=STEADY)
        rules = dataclasses.replace(rules, linear=part)
    objective = Objective(workload, flat, batch_size=BATCH_SIZE)
    parameters = Parameters(
        flat.read_weights(), devices=[CPU] * num_pieces, rules=rules, embeddings=flat.places()
    )
    batches = Batches(size=BATCH_SIZE, num_examples=NUM_EXAMPLES)
    return TrainStep(workload, flat, objective, parameters, batches)


def train(step, *, start=0, stop=STEPS, num_parts=1):
    """Return the loss of each step."""
    return trace(step, num_parts)(tf.constant(start), tf.constant(stop)).numpy()


@functools.lru_cache(maxsize=4)
def trace(step, num_parts):
    """Return a function of the first and last step, as tracing takes longer than training."""
    ids, labels = make_examples()
    table = {"ids": tf.constant(ids)}, tf.constant(labels)

    @tf.function(autograph=False)
    def run(start, stop):
        def run_step(index, found):
            rows = step.batches.rows(index)
            parts = [
                step.contribute(table, index, rows, part=part, num_parts=num_parts)
                for part in range(num_parts)
            ]
            return index + 1, found.write(index - start, step.apply(add(parts))[0] / BATCH_SIZE)

        found = tf.TensorArray(tf.float32, stop - start)
        return tf.while_loop(lambda index, _: index < stop, run_step, (start, found))[1].stack()

    return run


def fit(model, step):
    """Return the loss of each batch in Keras' `fit`."""
    ids, labels = make_examples()
    rows = step.batches.rows(tf.range(STEPS)).numpy()
    means = []
    recorder = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: means.append(logs["loss"])
    )
    data = tf.data.Dataset.from_tensor_slices((ids[rows], labels[rows][..., np.newaxis]))
    model.run_eagerly = True  # of few steps most of the time would be the tracing
    model.fit(data, epochs=1, verbose=0, shuffle=False, callbacks=[recorder])
    return np.diff(np.array(means, np.float64) * np.arange(1, STEPS + 1), prepend=0)


COMPILED = {
    "adagrad": lambda: optimizers.Adagrad(0.1, clipnorm=0.3),
    "adamw": lambda: optimizers.AdamW(
        0.01, weight_decay=0.1, global_clipnorm=0.5, use_ema=True, ema_momentum=0.9
    ),
    "nadam": lambda: optimizers.Nadam(0.005),
}


@pytest.mark.parametrize("optimizer", COMPILED)
def test_training_by_rows_equals_fit(optimizer):
    ours, theirs = make_model(), make_model(DenseGradient)
    for model in (ours, theirs):
        model.compile(COMPILED[optimizer](), "mse", jit_compile=False)
    step = make_step(ours)
    np.testing.assert_allclose(train(step), fit(theirs, step), atol=1e-4, rtol=1e-4)
    snapshot = step.parameters.snapshot()
    weights = FlatModel(theirs).read_weights()
    np.testing.assert_allclose(snapshot.get("average", snapshot["weights"]), weights, atol=1e-4)


OWN = {
    "adam-decay-ftrl": (Adam(), {"weight_decay": 0.1, "average": Average(decay=0.9)}, Ftrl()),
    "adagrad-clip-adam": (Adagrad(), {"clip_norm": 0.5}, Adam()),
}


@pytest.mark.parametrize("name", OWN)
def test_rows_parts_and_pieces_do_not_change_what_a_recipe_learns(name):
    optimizer, options, linear = OWN[name]
    results = []
    for by_rows, num_pieces, num_parts in ((False, 1, 1), (True, 2, 2)):
        model = make_model()
        if "weight_decay" in options:
            options["decay_mask"] = FlatModel(model).decay_mask()
        step = make_step(
            model,
            by_rows=by_rows,
            num_pieces=num_pieces,
            optimizer=optimizer,
            linear=linear,
            **options,
        )
        losses = train(step, stop=20, num_parts=num_parts)
        results.append({"losses": losses, **step.parameters.snapshot()})
    dense, found = results
    assert dense["losses"][-1] < dense["losses"][0]
    assert set(found) == set(dense)
    for key, value in dense.items():
        np.testing.assert_allclose(found[key], value, atol=2e-5, rtol=1e-4, err_msg=key)


def test_a_resumed_training_by_rows_ends_with_the_same_bits():
    options = {"optimizer": Adam(), "linear": Ftrl(), "average": Average(decay=0.9)}
    whole, second = (make_step(make_model(), num_pieces=number, **options) for number in (1, 2))
    train(whole, stop=8)
    second.parameters.load(whole.parameters.snapshot())
    whole.parameters.settle()  # as the drivers do, when a checkpoint is due
    for step in (whole, second):
        train(step, start=8, stop=20)
    expected, found = whole.parameters.snapshot(), second.parameters.snapshot()
    assert set(expected) == set(found) >= {"momentum", "linear_accumulator", "average"}
    for name, value in expected.items():
        assert value.numpy().tobytes() == found[name].numpy().tobytes(), name


def test_rows_that_are_in_no_batch_are_not_written():
    model = make_model()
    model.compile(optimizers.Adagrad(0.1), "mse")
    step = make_step(model)
    before = step.parameters.snapshot()["weights"]
    contribution = step.contribute(
        ({"ids": tf.constant([[1, 2, 2]] * BATCH_SIZE)}, tf.ones([BATCH_SIZE])),
        tf.constant(0),
        tf.range(BATCH_SIZE),
    )
    assert [sorted(rows.indices.numpy()) for rows in contribution.rows] == [[1, 2], [1, 2]]
    step.apply(contribution)
    change = step.parameters.snapshot()["weights"] - before
    [place, _] = step.parameters.places
    assert (place.ids_per_example, place.most_rows(5), place.most_rows(50)) == (2 * NUM_IDS, 30, 40)
    table = change[place.start :][: NUM_ROWS * 5].numpy().reshape(NUM_ROWS, 5)
    assert np.flatnonzero(table.any(axis=1)).tolist() == [1, 2]


class Tied(keras.Model):
    """A model that also uses the weights of its embedding as those of its last layer."""

    def __init__(self):
        super().__init__()
        self.tied = layers.Embedding(NUM_ROWS, 5)
        self.free = layers.Embedding(NUM_ROWS, 5, name="free")

    def call(self, inputs):
        vectors = self.tied(inputs) + self.free(inputs)
        return keras.ops.matmul(vectors[:, 0], keras.ops.transpose(self.tied.embeddings))


def test_only_embeddings_that_are_large_and_only_looked_up_travel_as_rows():
    def find(model, least_weights=NUM_ROWS):
        inputs = tf.zeros([2, NUM_IDS], tf.int32)
        model(inputs)
        return [
            one.layer.name for one in find_large(model, lambda: inputs, least_weights=least_weights)
        ]

    assert find(make_model()) == ["shared", "wide"]
    assert find(make_model(), NUM_ROWS * 5) == ["shared"]
    assert find(make_model(DenseGradient)) == []
    assert find(Tied()) == ["free"]
    for options in ({"embeddings_regularizer": "l2"}, {"embeddings_constraint": "max_norm"}):
        model = keras.Sequential([layers.Embedding(NUM_ROWS, 5, **options), layers.Flatten()])
        assert find(model) == []
