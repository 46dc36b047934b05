"""The variables of training, cut into pieces."""

import numpy as np

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.training.optimizers.adam import Adam  # noqa: E402
from trainer.training.optimizers.rules import UpdateRules  # noqa: E402
from trainer.training.optimizers.schedule import Schedule  # noqa: E402
from trainer.training.parameters import Parameters  # noqa: E402
from trainer.training.step import apply_gradient  # noqa: E402


def test_weights_in_pieces_train_like_whole_ones():
    initial = tf.random.stateless_normal([11], [1, 2])
    schedule = Schedule(peak=0.1, total_steps=10)
    states = []
    for num_pieces in (1, 3):
        parameters = Parameters(
            initial,
            devices=["/device:CPU:0"] * num_pieces,
            rules=UpdateRules(optimizer=Adam()),
        )
        for _ in range(4):
            apply_gradient(parameters, parameters.pull() * 2, schedule)
        states.append(parameters.snapshot())
    whole, pieces = states
    assert int(whole["global_step"]) == 4
    assert not np.allclose(whole["weights"], initial)
    for name, value in whole.items():
        np.testing.assert_allclose(value, pieces[name])
