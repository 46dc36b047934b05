"""Layers that get other values than they are for are named."""

import re

import numpy as np
import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
from keras import layers  # noqa: E402

from pipelines.projects.trial.first_layers import layer_problems  # noqa: E402

CHOOSER = np.random.default_rng(1)
PIXELS = CHOOSER.uniform(0, 1, (20, 8, 8, 3)).astype(np.float32)
SCALED = CHOOSER.normal(size=(20, 3)).astype(np.float32)
AGES = CHOOSER.normal(40, 12, (20, 3)).astype(np.float32)
IDS = CHOOSER.integers(0, 9, (20, 4))


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
