"""CIFAR-10: colour photographs of 32 by 32 pixels, ten classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.workloads.base import Features, Recipe
from trainer.workloads.data_sets import CIFAR10
from trainer.workloads.images import ImageWorkload, flip, shift
from trainer.workloads.labels import Classes

SIDE = 32
_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
MAX_SHIFT = 2
# Of the training images, per channel; pixels are 0 to 255.
_MEAN = (125.3, 123.0, 113.9)
_DEVIATION = (63.0, 62.1, 66.7)
_RESNET_DEPTHS = (20, 32, 44, 56, 110)
_RESNET_WIDTHS = (16, 32, 64)
_BATCH_NORM_MOMENTUM = 0.9
_FAST_WIDTHS = (64, 256, 256)
_NUM_WHITENING_IMAGES = 5000

# Decay is decoupled from momentum: 5e-3 here equals 5e-4 in coupled SGD with momentum 0.9.
_RESNET = Recipe(optimizer="sgd", learning_rate=0.1, weight_decay=5e-3, warmup=0.1)
# For batches of 256.
_FAST = Recipe(
    optimizer="sgd",
    learning_rate=0.25,
    weight_decay=0.0133,
    warmup=0.2,
    label_smoothing=0.2,
    average_decay=0.99,
)


@dataclass(frozen=True, kw_only=True)
class Cifar10(ImageWorkload):
    """Small nets on shifted and mirrored photographs.

    `fast` is for trainings of few epochs: fixed whitening filters, then three blocks of two
    convolutions (Jordan, 2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU").
    `resnetD` is the original net of D = 6n + 2 layers (He and others, 2015, section 4.2).
    """

    whitening: tuple[tuple[float, ...], ...] = ()
    """A row for each channel of each pixel of a patch; see `trainer.workloads.layers`."""

    name = "cifar10"
    source = CIFAR10
    label = Classes(values=tuple(range(len(_NAMES))), names=_NAMES)
    recipes = {"fast": _FAST, **{f"resnet{depth}": _RESNET for depth in _RESNET_DEPTHS}}  # noqa: RUF012
    num_noise = 3
    shape = (SIDE, SIDE, 3)

    def augment(self, features: Features, noise: Any) -> Features:
        """Shift each image by at most two pixels in each direction, and mirror half of them."""
        moved = shift(features["image"], noise[:, :2], max_shift=MAX_SHIFT, mode="REFLECT")
        return {"image": flip(moved, noise[:, 2])}

    def adapt(self, features: Features) -> "Cifar10":
        """Return the workload with filters that whiten patches of the train split."""
        from trainer.workloads.layers import whitening_kernel

        images = (features["image"][:_NUM_WHITENING_IMAGES] - np.array(_MEAN)) / _DEVIATION
        kernel = whitening_kernel(images).reshape(4 * 3, -1)
        return Cifar10(whitening=tuple(map(tuple, kernel.tolist())))

    def facts(self) -> dict[str, Any]:
        """Return the results of `adapt`, for JSON."""
        return {"whitening": self.whitening}

    def with_facts(self, facts: dict[str, Any]) -> "Cifar10":
        """Return the workload with the results of an earlier `adapt`."""
        return Cifar10(whitening=tuple(map(tuple, facts["whitening"])))

    def preprocess(self, features: Features) -> Any:
        """Return float pixels of mean 0 and deviation 1, shape [batch, 32, 32, 3]."""
        import tensorflow as tf

        return (tf.cast(features["image"], tf.float32) - _MEAN) / _DEVIATION

    def build_model(self, model: str = "") -> Any:
        """Return the named net."""
        model = model or self.default_model
        if model == "fast":
            return self._build_fast()
        return _build_resnet(int(model.removeprefix("resnet")), len(self.labels))

    def _build_fast(self) -> Any:
        import keras
        from keras import layers

        from trainer.workloads.layers import Whitening

        patches = np.array(self.whitening or np.eye(4 * 3)).reshape(2, 2, 3, -1)
        inputs = keras.Input((SIDE, SIDE, 3))
        # The filters distinguish nearly equal neighbours, for which bfloat16 is too coarse.
        x = layers.ReLU()(Whitening(patches, dtype="float32")(inputs))
        for width in _FAST_WIDTHS:
            x = _convolve_fast(_convolve_fast(x, width, pool=True), width)
        x = layers.Flatten()(layers.MaxPooling2D(3)(x))
        # Logits are float32 under --mixed-precision too.
        dense = layers.Dense(
            len(self.labels),
            use_bias=False,
            kernel_initializer=keras.initializers.RandomNormal(stddev=1.0),
            dtype="float32",
        )
        return keras.Model(inputs, layers.Rescaling(1 / 9, dtype="float32")(dense(x)))


def _convolve_fast(x: Any, width: int, *, pool: bool = False) -> Any:
    from keras import layers

    from trainer.workloads.layers import Normalization, PartialIdentity

    x = layers.Conv2D(
        width, 3, padding="same", use_bias=False, kernel_initializer=PartialIdentity()
    )(x)
    x = layers.MaxPooling2D()(x) if pool else x
    return layers.ReLU()(Normalization(momentum=_BATCH_NORM_MOMENTUM)(x))


def _build_resnet(depth: int, num_classes: int) -> Any:
    import keras
    from keras import layers

    inputs = keras.Input((SIDE, SIDE, 3))
    x = _convolve(inputs, _RESNET_WIDTHS[0])
    for width in _RESNET_WIDTHS:
        for block in range((depth - 2) // 6):
            strides = 2 if block == 0 and width != _RESNET_WIDTHS[0] else 1
            x = _residual_block(x, width, strides)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(num_classes, dtype="float32")(x))


def _residual_block(x: Any, width: int, strides: int) -> Any:
    from keras import layers

    change = _convolve(x, width, strides=strides)
    change = _convolve(change, width, activation=None)
    if strides > 1:
        # The original shortcut without weights: every other pixel, new channels of zeros.
        x = layers.MaxPooling2D(1, strides=strides)(x)
        x = layers.concatenate([x, layers.Rescaling(0.0)(x)])
    return layers.ReLU()(layers.add([x, change]))


def _convolve(x: Any, width: int, *, strides: int = 1, activation: str | None = "relu") -> Any:
    from keras import layers

    convolution = layers.Conv2D(
        width, 3, strides=strides, padding="same", use_bias=False, kernel_initializer="he_normal"
    )
    x = layers.BatchNormalization(momentum=_BATCH_NORM_MOMENTUM)(convolution(x))
    return layers.ReLU()(x) if activation else x


workload = Cifar10()
