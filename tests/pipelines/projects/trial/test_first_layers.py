"""Layers that get other values than they are for are named."""

import re

import numpy as np
import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
from keras import layers  # noqa: E402

from pipelines.projects.trial.first_layers import layer_problems  # noqa: E402
from trainer.workloads.models.wide_and_deep import build_wide_and_deep  # noqa: E402

CHOOSER = np.random.default_rng(1)
PIXELS = CHOOSER.uniform(0, 1, (20, 8, 8, 3)).astype(np.float32)
SCALED = CHOOSER.normal(size=(20, 3)).astype(np.float32)
AGES = CHOOSER.normal(40, 12, (20, 3)).astype(np.float32)
KELVIN = CHOOSER.normal(293, 3, (20, 3)).astype(np.float32)
IDS = CHOOSER.integers(0, 9, (20, 4))
REGRESSIONS = [
    (CHOOSER.uniform(0, 2000) * (number > 3), 10 ** CHOOSER.uniform(-3, 6)) for number in range(8)
]


@pytest.mark.parametrize(
    ("layer", "inputs", "problem"),
    [
        (layers.Rescaling(1 / 255), PIXELS, r"\(Rescaling\) gets.*scaled already"),
        (layers.Rescaling(1 / 127.5, offset=-1), PIXELS, r"returns -1 to -0.99"),
        (layers.Rescaling(2, offset=-1), PIXELS, None),
        (layers.Rescaling(1 / 255), 255 * PIXELS, None),
        (layers.Normalization(mean=120.0, variance=900.0), SCALED, r"Normalization.*scaled"),
        (layers.Normalization(mean=40.0, variance=144.0), SCALED, r"hardly differ"),
        (layers.Normalization(mean=40.0, variance=144.0), AGES, None),
        (layers.Rescaling(1 / 300), KELVIN, None),
        (layers.Embedding(9, 2), SCALED, r"Embedding.*numbers such as.*not ids.*Category"),
        (layers.Embedding(9, 2), IDS, None),
        (layers.Embedding(9, 2), IDS.astype(np.float32), None),
        (layers.Embedding(5, 2), IDS, r"ids from 0 to 8, but has input_dim 5"),
    ],
)
def test_a_layer_that_gets_other_values_is_named(layer, inputs, problem):
    given = keras.Input(inputs.shape[1:], dtype=inputs.dtype.name)
    inner = keras.Sequential([given, layer, layers.Flatten(), layers.Dense(1)])
    outer = keras.Input(inputs.shape[1:], dtype=inputs.dtype.name)
    problems = list(layer_problems(keras.Model(outer, inner(outer)), inputs))
    assert len(problems) == (problem is not None)
    if problem:
        assert re.search(problem, problems[0]), problems


class Subclassed(keras.Model):
    def __init__(self, mean, deviation):
        super().__init__()
        self.hidden = layers.Dense(4, "relu", trainable=False)
        self.rescaled = layers.Rescaling(deviation, offset=mean)
        self(SCALED)

    def call(self, inputs):
        return self.rescaled(keras.ops.sum(self.hidden(inputs), axis=1, keepdims=True))


def behind_weights(last):
    return keras.Sequential([keras.Input((3,)), layers.Dense(4, "relu"), layers.Dense(1), last])


def default_model(mean, deviation):
    return build_wide_and_deep(
        categories=[],
        crosses=[],
        num_amounts=3,
        edges=[],
        tokens={},
        images={},
        num_outputs=1,
        hidden_units=[4],
        embedding_size=2,
        batch_norm=False,
        scale=(mean, deviation),
    )


@pytest.mark.parametrize(
    "build",
    [
        default_model,
        Subclassed,
        lambda mean, deviation: behind_weights(layers.Rescaling(deviation, offset=mean)),
        lambda mean, deviation: behind_weights(
            layers.Normalization(mean=mean, variance=deviation**2, invert=True)
        ),
    ],
    ids=["default", "subclassed", "rescaling", "normalization"],
)
def test_a_last_layer_may_return_labels_of_any_mean_and_deviation(build):
    inputs = {"amounts": SCALED} if build is default_model else SCALED
    for mean, deviation in REGRESSIONS:
        assert not list(layer_problems(build(mean, deviation), inputs)), (mean, deviation)
