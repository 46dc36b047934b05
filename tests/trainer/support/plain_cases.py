"""Models and settings that are trained by `fit` and by ours: see test_as_fit."""

import keras
from keras import layers, losses, optimizers

from tests.trainer.support.plain_fit import Case

SPARSE = losses.SparseCategoricalCrossentropy(from_logits=True)


def net(units=3, activation=None, *, optimizer=lambda: optimizers.Adam(0.01), **compiled):
    """Return a function that builds and compiles a small model."""

    def build(inputs):
        hidden = layers.Dense(6, "tanh")(inputs["x"])
        model = keras.Model(inputs, layers.Dense(units, activation)(hidden))
        model.compile(optimizer=optimizer(), **{"loss": SPARSE, **compiled})
        return model

    return build


def halve(epoch):
    return 0.1 * 0.5**epoch


SGD = net(optimizer=lambda: optimizers.SGD(0.1), metrics=["accuracy"])


def stopping(**options):
    """Return a function that makes an EarlyStopping."""
    return lambda: [keras.callbacks.EarlyStopping(patience=2, **options)]


CASES = (
    Case(argument="loss", value="sparse", build=net(metrics=["accuracy"])),
    Case(
        argument="callbacks",
        value="LearningRateScheduler",
        build=SGD,
        callbacks=lambda: [keras.callbacks.LearningRateScheduler(halve)],
        epochs=6,
    ),
    Case(
        argument="callbacks",
        value="ReduceLROnPlateau",
        build=SGD,
        callbacks=lambda: [keras.callbacks.ReduceLROnPlateau(patience=1, min_delta=0.2)],
        epochs=4,
    ),
    Case(
        argument="callbacks",
        value="EarlyStopping",
        build=SGD,
        callbacks=stopping(min_delta=0.5),
        epochs=9,
    ),
    Case(
        argument="callbacks",
        value="EarlyStopping, restore_best_weights",
        build=SGD,
        callbacks=stopping(monitor="val_accuracy", min_delta=0.05, restore_best_weights=True),
        epochs=30,
    ),
    Case(
        argument="callbacks",
        value="EarlyStopping, restore_best_weights, not stopped",
        build=SGD,
        callbacks=stopping(monitor="val_accuracy", min_delta=0.5, restore_best_weights=True),
        epochs=2,
    ),
)
