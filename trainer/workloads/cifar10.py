"""CIFAR-10: colour photographs of 32 by 32 pixels, ten classes."""

from functools import partial
from typing import Any

import numpy as np

from trainer.workloads import Classes, ImageFolder, Recipe, flip, shift
from trainer.workloads.data_sets import CIFAR10
from trainer.workloads.models.residual import convolve

SIDE = 32
_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
MAX_SHIFT = 4  # as He and others (2015) pad by, section 4.2
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


def augment(images: Any, noise: Any) -> Any:
    """Shift each image by at most four pixels in each direction, and mirror half of them."""
    return flip(shift(images, noise[:, :2], max_shift=MAX_SHIFT, mode="REFLECT"), noise[:, 2])


def learn(images: np.ndarray) -> dict[str, Any]:
    """Return filters that whiten patches of the train split, a row for each channel and pixel."""
    from trainer.workloads.models.layers import whitening_kernel

    pixels = (images[:_NUM_WHITENING_IMAGES] - np.array(_MEAN)) / _DEVIATION
    return {"whitening": whitening_kernel(pixels).reshape(4 * 3, -1).tolist()}


def fast(inputs: Any, *, facts: dict[str, Any]) -> Any:
    """Return a net for trainings of few epochs.

    Fixed whitening filters, then three blocks of two convolutions (Jordan, 2024, "94% on CIFAR-10
    in 3.29 seconds on a single GPU"). It predicts the mean of six views of an image.
    """
    import keras
    from keras import layers

    from trainer.workloads.models.layers import AddViews, AverageViews, Whitening

    patches = np.array(facts.get("whitening", np.eye(4 * 3))).reshape(2, 2, 3, -1)
    # The filters distinguish nearly equal neighbours, for which bfloat16 is too coarse.
    x = layers.ReLU()(
        Whitening(patches, dtype="float32")(_standardize(AddViews(dtype="float32")(inputs)))
    )
    for width in _FAST_WIDTHS:
        x = _convolve_fast(_convolve_fast(x, width, pool=True), width)
    x = layers.Flatten()(layers.MaxPooling2D(3)(x))
    # Logits are float32 under --mixed-precision too.
    dense = layers.Dense(
        len(_NAMES),
        use_bias=False,
        kernel_initializer=keras.initializers.RandomNormal(stddev=1.0),
        dtype="float32",
    )
    logits = layers.Rescaling(1 / 9, dtype="float32")(dense(x))
    return keras.Model(inputs, AverageViews(dtype="float32")(logits))


def _standardize(inputs: Any) -> Any:
    from keras import layers

    scale = [255 / deviation for deviation in _DEVIATION]
    offset = [-mean / deviation for mean, deviation in zip(_MEAN, _DEVIATION, strict=True)]
    return layers.Rescaling(scale, offset=offset, dtype="float32")(inputs)


def _convolve_fast(x: Any, width: int, *, pool: bool = False) -> Any:
    from keras import layers

    from trainer.workloads.models.layers import Normalization, PartialIdentity

    x = layers.Conv2D(
        width, 3, padding="same", use_bias=False, kernel_initializer=PartialIdentity()
    )(x)
    x = layers.MaxPooling2D()(x) if pool else x
    return layers.ReLU()(Normalization(momentum=_BATCH_NORM_MOMENTUM)(x))


def resnet(inputs: Any, *, depth: int) -> Any:
    """Return the original net of 6n + 2 layers (He and others, 2015, section 4.2)."""
    import keras
    from keras import layers

    x = convolve(_standardize(inputs), _RESNET_WIDTHS[0])
    for width in _RESNET_WIDTHS:
        for block in range((depth - 2) // 6):
            strides = 2 if block == 0 and width != _RESNET_WIDTHS[0] else 1
            x = _residual_block(x, width, strides)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(len(_NAMES), dtype="float32")(x))


def _residual_block(x: Any, width: int, strides: int) -> Any:
    from keras import layers

    change = convolve(x, width, strides=strides)
    change = convolve(change, width, is_active=False)
    if strides > 1:
        # The original shortcut without weights: every other pixel, new channels of zeros.
        x = layers.MaxPooling2D(1, strides=strides)(x)
        x = layers.concatenate([x, layers.Rescaling(0.0)(x)])
    return layers.ReLU()(layers.add([x, change]))


RESNETS = {f"resnet{depth}": partial(resnet, depth=depth) for depth in _RESNET_DEPTHS}

workload = ImageFolder(
    (SIDE, SIDE),
    label=Classes(values=tuple(range(len(_NAMES))), names=_NAMES),
    model={"fast": fast, **RESNETS},
    recipe={"fast": _FAST, **dict.fromkeys(RESNETS, _RESNET)},
    augment_with=augment,
    num_noise=3,
    learn=learn,
    source=CIFAR10,
)
