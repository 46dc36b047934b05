"""MNIST: handwritten digits, 28 by 28 grey pixels, ten classes."""

from functools import partial
from typing import Any

from trainer.workloads import Classes, ImageFolder, Recipe, shift
from trainer.workloads.data_sets import MNIST


def cnn(inputs: Any) -> Any:
    """Return two convolutions and a hidden layer: 104,000 weights, 0.991 in two epochs.

    The strides save time on a CPU: pooling behind a convolution of each pixel takes half as long
    again, for the same accuracy (`benchmarks.mnist_accuracy`).
    """
    import keras
    from keras import layers

    return keras.Sequential(
        [
            inputs,
            layers.Conv2D(24, 5, strides=2, activation="relu"),
            layers.Conv2D(48, 5, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(96, activation="relu"),
            layers.Dense(10, dtype="float32"),
        ]
    )


workload = ImageFolder(
    (28, 28),
    channels=1,
    label=Classes(values=tuple(range(10))),
    model=cnn,
    recipe=Recipe(learning_rate=8e-3, part_size=16),
    augment_with=partial(shift, max_shift=1),
    num_noise=2,
    source=MNIST,
)
