"""MNIST: handwritten digits, 28 by 28 grey pixels, ten classes."""

from typing import Any

import numpy as np

from trainer.workloads.base import Features, Recipe, Workload

SIDE = 28
NUM_PIXELS = SIDE * SIDE
MAX_SHIFT = 1
_WHITE = 255


class Mnist(Workload):
    """A small convolutional net on shifted digits: 62,000 weights, 0.99 in three epochs."""

    name = "mnist"
    labels = tuple(str(digit) for digit in range(10))
    recipe = Recipe(learning_rate=4e-3)
    num_noise = 2

    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Returns {"image": uint8 [batch, 28, 28]} and labels [batch]."""
        import tensorflow as tf

        spec = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        examples = tf.io.parse_example(serialized, spec)
        pixels = tf.io.decode_raw(examples["image"], tf.uint8, fixed_length=NUM_PIXELS)
        return {"image": tf.reshape(pixels, [-1, SIDE, SIDE])}, examples["label"]

    def augment(self, features: Features, noise: Any) -> Features:
        """Moves each image by at most one pixel in each direction."""
        return {"image": _shift(features["image"], noise)}

    def preprocess(self, features: Features) -> Any:
        """Returns float pixels in [0, 1], shape [batch, 28, 28, 1]."""
        import tensorflow as tf

        return tf.cast(features["image"], tf.float32)[..., tf.newaxis] / 255.0

    def build_model(self) -> Any:
        """Returns two convolutions and a hidden layer; the first stride keeps a CPU fast."""
        import keras
        from keras import layers

        return keras.Sequential(
            [
                keras.Input((SIDE, SIDE, 1)),
                layers.Conv2D(32, 5, strides=2, activation="relu"),
                layers.Conv2D(32, 3, activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(len(self.labels)),
            ]
        )

    def input_specs(self) -> dict[str, Any]:
        """Returns the exported model's one input: raw uint8 images."""
        import tensorflow as tf

        return {"image": tf.TensorSpec([None, SIDE, SIDE], tf.uint8, name="image")}

    def parse_instance(self, instance: Any) -> Features:
        """Takes {"image": rows} or the rows themselves; 28 by 28 nested, or 784 numbers."""
        if not isinstance(instance, dict):
            return {"image": _parse_image(instance)}
        unknown = sorted(set(instance) - {"image", "key"})
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r}; allowed are 'image' and 'key'")
        if "image" not in instance:
            raise ValueError("the field 'image' is missing")
        return {"image": _parse_image(instance["image"])}


def _shift(images: Any, noise: Any) -> Any:
    import tensorflow as tf

    side = SIDE + 2 * MAX_SHIFT
    padded = tf.pad(images, [[0, 0], [MAX_SHIFT, MAX_SHIFT], [MAX_SHIFT, MAX_SHIFT]])
    flat = tf.reshape(padded, [-1, side * side])
    offsets = tf.cast(noise * (2 * MAX_SHIFT + 1), tf.int32)
    starts = offsets[:, :1] * side + offsets[:, 1:]
    pixels = tf.range(SIDE)[:, tf.newaxis] * side + tf.range(SIDE)
    moved = tf.gather(flat, starts + tf.reshape(pixels, [1, -1]), batch_dims=1)
    return tf.reshape(moved, [-1, SIDE, SIDE])


def _parse_image(value: Any) -> np.ndarray:
    if not isinstance(value, list):
        raise ValueError(f"image must be a list of pixels, not {type(value).__name__}")
    try:
        pixels = np.asarray(value)
    except ValueError as error:
        raise ValueError("image has rows of different lengths") from error
    if pixels.shape not in {(SIDE, SIDE), (NUM_PIXELS,)}:
        raise ValueError(f"image has shape {pixels.shape}, expected ({SIDE}, {SIDE})")
    if pixels.dtype.kind not in "iuf":
        raise ValueError("image has a pixel that is not a number")
    outside = (pixels < 0) | (pixels > _WHITE) | (pixels != np.floor(pixels))
    if outside.any():
        worst = pixels[outside].flat[0]
        raise ValueError(f"image has the pixel {worst}; pixels are whole numbers from 0 to 255")
    return pixels.astype(np.uint8).reshape(SIDE, SIDE)


WORKLOAD = Mnist()
