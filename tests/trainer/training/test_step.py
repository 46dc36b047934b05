"""The train step: parts of a batch, model state, clipping, precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from trainer.config.train_config import TrainConfig
from trainer.examples.batches import Batches
from trainer.examples.tables import gather_rows
from trainer.runtime.tracing import traced
from trainer.training.model.devices import has_bfloat16
from trainer.training.model.embeddings import add
from trainer.training.model.flat_model import FlatModel, build_model
from trainer.training.model.objective import Objective
from trainer.training.optimizers.fused import make_optimizer
from trainer.training.optimizers.rules import Average, UpdateRules
from trainer.training.optimizers.schedule import Schedule
from trainer.training.parameters import Parameters
from trainer.training.results.evaluator import EvalStep, served_values
from trainer.training.step import TrainStep, apply_gradient
from trainer.workloads import load_workload
from trainer.workloads.base import Recipe

MNIST = load_workload("mnist")
SCHEDULE = Schedule(peak=0.01, total_steps=10)
BATCHES = Batches(size=16, num_examples=40, seed=3)


def make_table(count=40):
    random = np.random.default_rng(1)
    images = tf.constant(random.integers(0, 255, (count, 28, 28)).astype(np.uint8))
    return {"image": images}, tf.constant(random.integers(0, 10, count))


def make_model(*extra):
    keras.utils.set_random_seed(0)
    head = [layers.Flatten(), layers.Dense(8, kernel_regularizer="l2"), *extra, layers.Dense(10)]
    return keras.Sequential([keras.Input((28, 28, 1)), *head])


def make_step(
    model,
    recipe=None,
    *,
    num_pieces=1,
    label_smoothing=0.0,
    message_dtype="float32",
    clip_norm=0.0,
    **plan,
):
    flat_model, recipe = FlatModel(model), recipe or Recipe(learning_rate=0.01)
    objective = Objective(MNIST, flat_model, batch_size=16, label_smoothing=label_smoothing)
    parameters = Parameters(
        flat_model.read_weights(),
        devices=["/device:CPU:0"] * num_pieces,
        rules=UpdateRules(
            optimizer=make_optimizer(recipe),
            schedule=SCHEDULE,
            clip_norm=clip_norm,
            weight_decay=recipe.weight_decay,
            decay_mask=flat_model.decay_mask(),
            average=Average(decay=recipe.average_decay) if recipe.average_decay else None,
        ),
        state=flat_model.read_state(),
        num_counters=1 if message_dtype != "float32" else 0,
        message_dtype=message_dtype,
    )
    return TrainStep(MNIST, flat_model, objective, parameters, BATCHES, **plan), parameters


def contribute(step, index, **part):
    """Return the contribution of batch `index` of `make_table`, or of a part of it."""
    index = tf.constant(index)
    return step.contribute(make_table(), index, step.batches.rows(index), **part)


def joined(contribution):
    """Return the gradient, the change of the state and the sums as one vector."""
    return tf.concat([contribution.gradient, contribution.state_and_sums], 0)


@pytest.mark.parametrize("num_parts", [2, 3])
def test_the_parts_of_a_batch_add_up_to_it(num_parts):
    step, _ = make_step(make_model(), label_smoothing=0.1)
    whole = contribute(step, 2)
    parts = [contribute(step, 2, part=part, num_parts=num_parts) for part in range(num_parts)]
    np.testing.assert_allclose(joined(whole), joined(add(parts)), atol=1e-5)


def test_the_statistics_of_batch_normalisation_follow_the_batches():
    model = make_model(layers.BatchNormalization(momentum=0.5))
    step, parameters = make_step(model, num_pieces=2)
    for index in range(5):
        step.apply(contribute(step, index))
    flat_model, state = FlatModel(model), parameters.pull_state()
    assert flat_model.state_size == 16
    assert not np.allclose(state, flat_model.read_state())
    # Keras itself, with the same weights and inputs, moves its statistics by the same amount.
    before = parameters.snapshot()
    flat_model.write(before["weights"], before["state"])
    change = contribute(step, 7).state_and_sums[: flat_model.state_size]
    rows = step.batches.rows(tf.constant(7))
    features, _ = gather_rows(make_table(), rows)
    noise = step.batches.noise(tf.constant(7), rows, num_noise=MNIST.num_noise)
    model(MNIST.preprocess(MNIST.augment(features, noise)), training=True)
    np.testing.assert_allclose(before["state"] + change, flat_model.read_state(), atol=1e-5)
    # Parts differ a little: the mean of their variances is below the variance of the batch.
    parts = add([contribute(step, 7, part=part, num_parts=2) for part in range(2)])
    in_parts = parts.state_and_sums[: flat_model.state_size]
    assert np.corrcoef(change, in_parts)[0, 1] > 0.98
    assert not np.allclose(change, in_parts)


def test_averaged_weights_come_with_statistics_averaged_like_them():
    model = make_model(layers.BatchNormalization(momentum=0.5))
    step, parameters = make_step(model, Recipe(learning_rate=0.01, average_decay=0.9))
    states, expected = [], parameters.pull_state()
    for index in range(6):
        step.apply(contribute(step, index))
        states.append(parameters.pull_state())
        decay = min(0.9, (2 + index) / (11 + index))
        expected = decay * expected + (1 - decay) * states[-1]
    snapshot = parameters.snapshot()
    _, average = served_values(snapshot)
    np.testing.assert_allclose(average, expected, atol=1e-6)
    assert not np.allclose(average, states[-1], atol=1e-3)
    _, restored = make_step(model, Recipe(learning_rate=0.01, average_decay=0.9), num_pieces=2)
    restored.load(snapshot)
    np.testing.assert_array_equal(restored.snapshot()["average_state"], average)


def test_dropout_is_a_function_of_the_step_and_off_in_evaluation():
    model = make_model(layers.Dropout(0.5))
    step, parameters = make_step(model)
    table = make_table()
    first, again, other = (joined(contribute(step, index)) for index in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    flat_model = FlatModel(model)
    objective = Objective(MNIST, flat_model, batch_size=16)
    evaluation = EvalStep(MNIST, flat_model, objective, [table])
    measured = evaluation.measure(parameters.pull(), parameters.pull_state())
    images = tf.cast(table[0]["image"], tf.float32)[..., tf.newaxis] / 255
    expected = keras.losses.sparse_categorical_crossentropy(table[1], model(images), True)
    assert measured["loss"] == pytest.approx(np.mean(expected), rel=1e-4)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_decay_spares_biases_and_the_average_follows_the_weights(optimizer):
    model = make_model()
    flat_model = FlatModel(model)
    recipe = Recipe(learning_rate=0.01, optimizer=optimizer, weight_decay=0.5, average_decay=0.9)
    results = []
    for num_pieces in (1, 3):
        _, parameters = make_step(model, recipe, num_pieces=num_pieces)
        parameters.load({**parameters.snapshot(), "weights": tf.ones([flat_model.size])})
        for _ in range(5):
            apply_gradient(parameters, tf.zeros([flat_model.size]))
        results.append((parameters.pull(), parameters.snapshot()["average"]))
    weights, average = results[0]
    kept = weights == 1
    np.testing.assert_array_equal(kept, flat_model.decay_mask() == 0)
    assert np.all(weights.numpy()[~kept] < 1)
    assert not np.allclose(weights, average)
    for whole, in_pieces in zip(*results, strict=True):
        np.testing.assert_allclose(whole, in_pieces)


def test_a_clipped_gradient_has_the_given_norm():
    recipe = Recipe(learning_rate=0.01, optimizer="sgd")
    model = make_model()
    step, parameters = make_step(model, recipe, clip_norm=0.5)
    before = parameters.pull()
    step.apply(contribute(step, 0))
    # Nesterov's first step is 1.9 times the gradient.
    change = tf.norm(parameters.pull() - before) / SCHEDULE.rate(tf.constant(1)) / 1.9
    assert float(change) == pytest.approx(0.5, rel=1e-4)


def run(step, count):
    """Return the loss of each of the first steps, all trained in one graph."""
    table, losses = make_table(), []

    @traced
    def run_steps(count):
        def contribute(index, rows):
            contribution = step.contribute(table, index, rows)
            tf.py_function(
                losses.append, [contribution.state_and_sums[-step.objective.num_sums]], []
            )
            return contribution

        return step.run(contribute, tf.constant(0), count)

    run_steps(tf.constant(count))
    return [float(loss) for loss in losses]


def test_messages_in_bfloat16_change_no_weights_on_the_server_and_hardly_the_losses():
    step, parameters = make_step(make_model(), num_pieces=2, message_dtype="bfloat16")
    weights, pulled = parameters.snapshot()["weights"], parameters.pull()
    np.testing.assert_array_equal(pulled, tf.cast(tf.cast(weights, tf.bfloat16), tf.float32))
    assert not np.array_equal(pulled, weights)
    losses, expected = run(step, 20), run(make_step(make_model(), num_pieces=2)[0], 20)
    assert losses != expected
    np.testing.assert_allclose(losses, expected, rtol=0.02)
    assert sum(expected[-5:]) < 0.9 * sum(expected[:5])


def test_bfloat16_is_used_only_where_it_is_fast(monkeypatch, tmp_path, caplog):
    cpuinfo = tmp_path / "cpuinfo"
    assert not has_bfloat16(cpuinfo=str(cpuinfo))
    for flags, is_fast in (("flags : fpu avx512_bf16 sse", True), ("flags : fpu avx512f", False)):
        cpuinfo.write_text(flags)
        assert has_bfloat16(cpuinfo=str(cpuinfo)) is is_fast
    monkeypatch.setattr("trainer.training.model.flat_model.has_bfloat16", lambda: False)
    config = TrainConfig(workload="mnist", examples_dir="-", mixed_precision=True)
    assert build_model(MNIST, config).layers[0].compute_dtype == "float32"
    assert "no bfloat16" in caplog.text


def test_mixed_precision_keeps_weights_and_logits_in_float32(monkeypatch):
    monkeypatch.setattr("trainer.training.model.flat_model.has_bfloat16", lambda: True)
    config = TrainConfig(workload="mnist", examples_dir="-", mixed_precision=True)
    model = build_model(MNIST, config)
    assert {variable.dtype for variable in model.variables} == {"float32"}
    assert model.layers[0].compute_dtype == "bfloat16"
    assert model.layers[-1].compute_dtype == "float32"
    assert keras.config.dtype_policy().name == "float32"
    step, _ = make_step(model)
    assert np.all(np.isfinite(joined(contribute(step, 0))))
