"""Optimizers on pieces of the weights equal Keras' `fit` on the same batches."""

import numpy as np
import pytest

from tests.trainer.support.tiny import NUM_INPUTS, Tiny, make_examples
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads.declarations.labels import Multilabel

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers, losses, optimizers  # noqa: E402

from trainer.examples.batches import Batches, batch_rows  # noqa: E402
from trainer.training.model.flat_model import FlatModel  # noqa: E402
from trainer.training.model.objective import Objective  # noqa: E402
from trainer.training.optimizers.compiled import read_optimizer  # noqa: E402
from trainer.training.parameters import Parameters  # noqa: E402
from trainer.training.step import StepPlan, TrainStep  # noqa: E402

pytestmark = pytest.mark.timeout(240)
STEPS, BATCH_SIZE, NUM_EXAMPLES = 80, 8, 64
BATCHES = Batches(size=BATCH_SIZE, num_examples=NUM_EXAMPLES)
CPU = "/device:CPU:0"
FLAGS = Multilabel(values=("a", "b", "c"))
DECAY = {"initial_learning_rate": 0.01, "decay_steps": 150}
OPTIMIZERS = {
    "adamw": lambda: optimizers.AdamW(0.01, weight_decay=0.1, global_clipnorm=0.5),
    "sgd": lambda: optimizers.SGD(
        optimizers.schedules.CosineDecay(**DECAY), momentum=0.9, nesterov=True, clipnorm=0.2
    ),
    "nadam": lambda: optimizers.Nadam(0.005),
    "rmsprop": lambda: optimizers.RMSprop(0.003, momentum=0.5, use_ema=True, ema_momentum=0.9),
    "lamb": lambda: optimizers.Lamb(0.01),
    "adafactor": lambda: optimizers.Adafactor(0.01),
    "adam": lambda: optimizers.Adam(0.01, amsgrad=True),
    "adamax": lambda: optimizers.Adamax(0.01, clipvalue=0.05),
    "adagrad": lambda: optimizers.Adagrad(0.1),
    "adadelta": lambda: optimizers.Adadelta(1.0),
    "ftrl": lambda: optimizers.Ftrl(0.05),
    "lion": lambda: optimizers.Lion(0.002, weight_decay=0.01),
    "muon": lambda: optimizers.Muon(0.01, exclude_layers=["last"]),
    "plain": lambda: optimizers.SGD(0.05),
    "rmsprop-centered": lambda: optimizers.RMSprop(0.003, centered=True),
    "accumulating": lambda: optimizers.Adam(
        0.01, gradient_accumulation_steps=4, weight_decay=0.1, clipnorm=0.3
    ),
    "overwriting": lambda: optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=20),
    "excluding": lambda: _excluding(optimizers.AdamW(0.01, weight_decay=0.5)),
    "own": lambda: OwnOptimizer(0.05),
}


class OwnOptimizer(optimizers.Optimizer):
    """Gradient descent with steps of the layer's norm."""

    def update_step(self, gradient, variable, learning_rate):
        norm = keras.ops.sqrt(keras.ops.sum(keras.ops.square(gradient))) + 1e-3
        self.assign_sub(variable, learning_rate * gradient / norm)


def _excluding(optimizer):
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def make_model():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((NUM_INPUTS,))
    hidden = layers.Dense(6, "tanh", name="first")(inputs)
    return keras.Model(inputs, layers.Dense(3, name="last")(hidden))


def make_batches(label):
    """Return the batches of `fit`: the same as those of our steps."""
    inputs, labels = make_examples(label, count=NUM_EXAMPLES)
    rows = batch_rows(BATCHES, tf.range(STEPS), seed=0).numpy()
    return inputs[rows], labels[rows]


def fit(model, inputs, targets):
    """Return the loss of each batch in Keras' `fit`."""
    means = []
    recorder = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: means.append(logs["loss"])
    )
    data = tf.data.Dataset.from_tensor_slices((inputs, targets))
    model.optimizer.build(model.trainable_variables)  # else `fit` traces its function twice
    model.fit(data, epochs=1, verbose=0, shuffle=False, callbacks=[recorder])
    totals = np.array(means, np.float64) * np.arange(1, len(means) + 1)
    return np.diff(totals, prepend=0)


def make_step(label, model, *, num_pieces):
    workload, flat_model = Tiny(label), FlatModel(model)
    objective = Objective(workload, flat_model, batch_size=BATCH_SIZE)
    objective.check_parts()
    compiled = read_optimizer(flat_model)
    parameters = Parameters(
        flat_model.read_weights(),
        devices=[CPU] * num_pieces,
        rules=compiled.rules,
    )
    plan = StepPlan(
        batches=BATCHES,
        seed=0,
        schedule=compiled.rate,
        clip=compiled.clip,
    )
    return TrainStep(workload, flat_model, objective, parameters, plan), parameters


def train(step, label):
    """Return the loss of each step."""
    inputs, labels = make_examples(label, count=NUM_EXAMPLES)
    table = {"x": tf.constant(inputs)}, tf.constant(labels)

    @tf.function(autograph=False)
    def run():
        found = tf.TensorArray(tf.float32, STEPS)

        def run_step(index, found):
            rows = step.rows(index)
            contribution = step.contribute(table, index, rows)
            return index + 1, found.write(index, step.apply(contribution)[0] / BATCH_SIZE)

        _, found = tf.while_loop(lambda index, _: index < STEPS, run_step, (0, found))
        return found.stack()

    return run().numpy()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_in_two_pieces_equals_its_own_in_fit(optimizer):
    """Two pieces of the weights are those of two parameter servers; see also test_as_fit."""
    ours, plain = make_model(), make_model()
    for model in (ours, plain):
        model.compile(OPTIMIZERS[optimizer](), losses.BinaryCrossentropy(from_logits=True))
    expected = fit(plain, *make_batches(FLAGS))
    step, parameters = make_step(FLAGS, ours, num_pieces=2)
    np.testing.assert_allclose(train(step, FLAGS), expected, atol=1e-4, rtol=1e-4)
    snapshot = parameters.snapshot()
    weights = FlatModel(plain).read_weights()
    np.testing.assert_allclose(snapshot.get("average", snapshot["weights"]), weights, atol=1e-4)
