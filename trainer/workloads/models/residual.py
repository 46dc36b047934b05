"""A small residual net for images, trained from nothing in minutes."""

from typing import Any

from trainer.runtime.lazy import keras, layers

_LARGE = 48  # pixels from which the first convolution halves the image
_MOMENTUM = 0.9


def residual(
    inputs: Any,
    *,
    labels: tuple[str, ...],
    width: int = 32,
    stages: int = 3,
    blocks: int = 1,
    dropout: float = 0.2,
) -> Any:
    """Return a net of residual blocks, with twice the channels and half the pixels each stage.

    Args:
        inputs: a Keras input of pixels from 0 to 1.
        labels: the names of the classes.
        width: channels of the first stage.
        stages: number of stages.
        blocks: residual blocks of a stage.
        dropout: share of the features left out before the last layer, in training.
    """
    x = pooled(inputs, width=width, stages=stages, blocks=blocks)
    x = layers.Dropout(dropout)(x)
    return keras.Model(inputs, layers.Dense(len(labels), dtype="float32")(x))


def pooled(inputs: Any, *, width: int = 32, stages: int = 3, blocks: int = 1) -> Any:
    """Return the means of the last stage's channels, [batch, channels]."""
    x = layers.Rescaling(4.0, offset=-2.0, dtype="float32")(inputs)
    strides = 2 if min(inputs.shape[1:3]) >= _LARGE else 1
    x = convolve(x, width, strides=strides)
    for stage in range(stages):
        for block in range(blocks):
            x = _block(x, width * 2**stage, strides=2 if stage and not block else 1)
    return layers.GlobalAveragePooling2D()(x)


def _block(x: Any, width: int, *, strides: int) -> Any:
    change = convolve(convolve(x, width, strides=strides), width, is_active=False)
    if strides > 1 or x.shape[-1] != width:
        x = convolve(x, width, strides=strides, size=1, is_active=False)
    return layers.ReLU()(layers.add([x, change]))


def convolve(x: Any, width: int, *, strides: int = 1, size: int = 3, is_active: bool = True) -> Any:
    """Return a convolution with batch normalization and, if it is active, a ReLU."""
    convolution = layers.Conv2D(
        width, size, strides=strides, padding="same", use_bias=False, kernel_initializer="he_normal"
    )
    x = layers.BatchNormalization(momentum=_MOMENTUM)(convolution(x))
    return layers.ReLU()(x) if is_active else x
