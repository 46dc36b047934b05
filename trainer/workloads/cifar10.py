"""CIFAR-10: colour photographs of 32 by 32 pixels, ten classes."""

from typing import Any

from trainer.workloads.base import Features, Recipe
from trainer.workloads.images import ImageWorkload, flip, move

SIDE = 32
MAX_SHIFT = 4
# Of the training images, for each channel; in the range of pixels, 0 to 255.
_MEAN = (125.3, 123.0, 113.9)
_DEVIATION = (63.0, 62.1, 66.7)
_RESNET_DEPTHS = (20, 32, 44, 56, 110)
_RESNET_WIDTHS = (16, 32, 64)
_BATCH_NORM_MOMENTUM = 0.9

# Decay is decoupled from momentum here: 5e-3 is what coupled SGD with momentum 0.9 calls 5e-4.
_RESNET = Recipe(optimizer="sgd", learning_rate=0.1, weight_decay=5e-3, warmup=0.1)
_FAST = Recipe(
    optimizer="sgd",
    learning_rate=0.2,
    weight_decay=5e-3,
    warmup=0.2,
    label_smoothing=0.1,
    average_decay=0.998,
)


class Cifar10(ImageWorkload):
    """Residual nets on cropped and mirrored photographs.

    `fast` is a wide and shallow net after David Page's ResNet-9 with half its channels;
    `resnetD` is the classic net of D = 6n + 2 layers (He and others, 2015, section 4.2).
    """

    name = "cifar10"
    labels = (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    )
    recipes = {"fast": _FAST, **{f"resnet{depth}": _RESNET for depth in _RESNET_DEPTHS}}  # noqa: RUF012
    num_noise = 3
    shape = (SIDE, SIDE, 3)

    def augment(self, features: Features, noise: Any) -> Features:
        """Moves each image by at most four pixels in each direction, and mirrors every other."""
        moved = move(features["image"], noise[:, :2], max_shift=MAX_SHIFT)
        return {"image": flip(moved, noise[:, 2])}

    def preprocess(self, features: Features) -> Any:
        """Returns float pixels of mean 0 and deviation 1, shape [batch, 32, 32, 3]."""
        import tensorflow as tf

        return (tf.cast(features["image"], tf.float32) - _MEAN) / _DEVIATION

    def build_model(self, model: str = "") -> Any:
        """Returns the named net."""
        model = model or self.default_model
        if model == "fast":
            return _build_fast(len(self.labels))
        return _build_resnet(int(model.removeprefix("resnet")), len(self.labels))


def _build_fast(num_classes: int) -> Any:
    import keras
    from keras import layers

    inputs = keras.Input((SIDE, SIDE, 3))
    x = _convolve(inputs, 32)
    x = _convolve(x, 64, pool=True)
    x = layers.add([x, _convolve(_convolve(x, 64), 64)])
    x = _convolve(x, 128, pool=True)
    x = _convolve(x, 256, pool=True)
    x = layers.add([x, _convolve(_convolve(x, 256), 256)])
    x = layers.GlobalMaxPooling2D()(x)
    # Logits of float32 also under --mixed-precision; scaled, so that the first steps can be long.
    x = layers.Dense(num_classes, use_bias=False, dtype="float32")(x)
    return keras.Model(inputs, layers.Rescaling(0.125, dtype="float32")(x))


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
        # The classic shortcut without weights: every other pixel, new channels of zeros.
        x = layers.MaxPooling2D(1, strides=strides)(x)
        x = layers.concatenate([x, layers.Rescaling(0.0)(x)])
    return layers.ReLU()(layers.add([x, change]))


def _convolve(
    x: Any, width: int, *, strides: int = 1, pool: bool = False, activation: str | None = "relu"
) -> Any:
    from keras import layers

    convolution = layers.Conv2D(
        width, 3, strides=strides, padding="same", use_bias=False, kernel_initializer="he_normal"
    )
    x = convolution(x)
    if pool:
        x = layers.MaxPooling2D()(x)
    x = layers.BatchNormalization(momentum=_BATCH_NORM_MOMENTUM)(x)
    return layers.ReLU()(x) if activation else x


WORKLOAD = Cifar10()
