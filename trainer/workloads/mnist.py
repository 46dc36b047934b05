"""MNIST: handwritten digits, 28 by 28 grey pixels, ten classes."""

from typing import Any

from trainer.workloads.base import Features, Recipe
from trainer.workloads.data_sets import MNIST
from trainer.workloads.images import ImageWorkload, shift
from trainer.workloads.labels import Classes

SIDE = 28
MAX_SHIFT = 1


class Mnist(ImageWorkload):
    """A small convolutional net on shifted digits: 62,000 weights, 0.99 in three epochs."""

    name = "mnist"
    source = MNIST
    label = Classes(values=tuple(range(10)))
    recipes = {"cnn": Recipe(learning_rate=4e-3)}  # noqa: RUF012
    num_noise = 2
    shape = (SIDE, SIDE)

    def augment(self, features: Features, noise: Any) -> Features:
        """Shift each image by at most one pixel in each direction."""
        return {"image": shift(features["image"], noise, max_shift=MAX_SHIFT)}

    def preprocess(self, features: Features) -> Any:
        """Return float pixels in [0, 1], shape [batch, 28, 28, 1]."""
        import tensorflow as tf

        return tf.cast(features["image"], tf.float32)[..., tf.newaxis] / 255.0

    def build_model(self, model: str = "") -> Any:
        """Return two convolutions and a hidden layer; the first stride saves time on a CPU."""
        import keras
        from keras import layers

        del model
        return keras.Sequential(
            [
                keras.Input((SIDE, SIDE, 1)),
                layers.Conv2D(32, 5, strides=2, activation="relu"),
                layers.Conv2D(32, 3, activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(len(self.labels), dtype="float32"),
            ]
        )


workload = Mnist()
