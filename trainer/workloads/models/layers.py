"""Layers for nets trained in minutes on a CPU, where Keras' own are slower or do not exist."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_EPSILON = 1e-3
# The square root of a shift's learning rate relative to the other weights'.
_SHIFT_SCALE = 8.0
_WHITENING_EPSILON = 5e-4
_NUM_VIEWS = 6


class Normalization(keras.layers.Layer):
    """Batch normalisation without a scale, in one fused operation that supports bfloat16.

    The learning rate of shifts is 64 times the other weights' (Jordan, 2024, section 3.4).
    """

    def __init__(self, *, momentum: float = 0.9, **options: Any):
        super().__init__(**options)
        self._momentum = momentum

    def build(self, shape: tuple[int, ...]) -> None:
        """Create the shift, moving mean and moving variance of each channel."""

        def add(name: str, initializer: str, *, trainable: bool) -> Any:
            return self.add_weight(
                shape=shape[-1:],
                initializer=initializer,
                dtype="float32",
                autocast=False,
                trainable=trainable,
                name=name,
            )

        self._shift = add("shift", "zeros", trainable=True)
        self._mean = add("mean", "zeros", trainable=False)
        self._variance = add("variance", "ones", trainable=False)

    def call(self, inputs: Any, *, training: bool = False) -> Any:
        """Return the inputs with mean `shift` and deviation 1 in each channel."""
        shift = tf.convert_to_tensor(self._shift) * _SHIFT_SCALE
        moments = [] if training else [self._mean, self._variance]
        mean, variance = map(tf.convert_to_tensor, moments or [[], []])
        outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=tf.ones_like(shift),
            offset=shift,
            mean=mean,
            variance=variance,
            epsilon=_EPSILON,
            is_training=training,
        )
        if training:
            self._move(self._mean, mean)
            self._move(self._variance, variance)
        return outputs

    def _move(self, average: Any, value: Any) -> None:
        average.assign(average * self._momentum + value * (1 - self._momentum))


class Whitening(keras.layers.Layer):
    """Fixed filters, and their negatives, that whiten patches of 2 by 2 pixels.

    `kernel` is [2, 2, channels, filters], see `whitening_kernel`. Only the bias is trained.
    """

    def __init__(self, kernel: np.ndarray, **options: Any):
        super().__init__(**options)
        self._values = np.concatenate([kernel, -kernel], axis=-1).astype(np.float32)

    def build(self, shape: tuple[int, ...]) -> None:
        """Create the filters, which are not trained, and the bias."""
        self._kernel = self.add_weight(
            shape=self._values.shape,
            initializer=lambda *_, **__: self._values,
            trainable=False,
            name="kernel",
        )
        self._bias = self.add_weight(shape=self._values.shape[-1:], initializer="zeros", name="b")

    def call(self, inputs: Any) -> Any:
        """Return [batch, height - 1, width - 1, 2 * filters]."""
        return keras.ops.conv(inputs, self._kernel, padding="valid") + self._bias


class PiecewiseLinear(keras.layers.Layer):
    """Position of each number in the pieces between its edges: 0 below a piece, 1 above it.

    A linear layer of these is piecewise linear in the numbers (Gorishniy and others, 2022, "On
    Embeddings for Numerical Features in Tabular Deep Learning", section 3.2). `edges` are ascending
    for each number, [] for one without pieces.
    """

    def __init__(self, edges: Sequence[Sequence[float]], **options: Any):
        super().__init__(**options)
        pieces = [
            (number, low, high - low)
            for number, ends in enumerate(edges)
            for low, high in itertools.pairwise(ends)
        ]
        numbers, lows, widths = zip(*pieces, strict=True)
        self._numbers = np.array(numbers, np.int32)
        self._lows, self._widths = np.array(lows, np.float32), np.array(widths, np.float32)

    def call(self, inputs: Any) -> Any:
        """Return [batch, pieces]."""
        values = tf.gather(inputs, self._numbers, axis=1)
        return tf.clip_by_value((values - self._lows) / self._widths, 0.0, 1.0)


class AddViews(keras.layers.Layer):
    """In inference, appends other views of each image of a batch; in training does nothing.

    The six views are the image itself, it shifted by a pixel up and left, and down and right, and
    these three mirrored left to right (Jordan, 2024, section 3.5). With `AverageViews` behind the
    logits a model predicts their mean.
    """

    def call(self, inputs: Any, *, training: bool = False) -> Any:
        """Return [6 * batch, height, width, channels] in inference."""
        if training:
            return inputs
        height, width = inputs.shape[1:3]
        padded = tf.pad(inputs, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
        views = [padded[:, start:, start:][:, :height, :width] for start in (1, 0, 2)]
        return tf.concat([*views, *(view[:, :, ::-1] for view in views)], 0)


class AverageViews(keras.layers.Layer):
    """In inference, averages the outputs of a batch from `AddViews`; see there."""

    def call(self, inputs: Any, *, training: bool = False) -> Any:
        """Return [batch, outputs]."""
        return inputs if training else tf.add_n(tf.split(inputs, _NUM_VIEWS)) / _NUM_VIEWS


def whitening_kernel(images: np.ndarray) -> np.ndarray:
    """Return filters [2, 2, c, 4c] that whiten patches of images of mean 0."""
    height, width, channels = images.shape[1:]
    corners = [images[:, y : y + height - 1, x : x + width - 1] for y in range(2) for x in range(2)]
    patches = np.concatenate(corners, axis=-1).reshape(-1, 4 * channels).astype(np.float64)
    spreads, parts = np.linalg.eigh(patches.T @ patches / len(patches))
    return (parts / np.sqrt(spreads + _WHITENING_EPSILON)).reshape(2, 2, channels, -1)


class PartialIdentity(keras.initializers.Initializer):
    """Initializer of convolutions: the first filters copy the inputs, the others are random."""

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Any:
        """Return a kernel [height, width, inputs, filters]."""
        kernel = keras.initializers.VarianceScaling(1 / 3, distribution="uniform")(shape, dtype)
        num_inputs, num_filters = shape[2:]
        if num_filters < num_inputs:
            return kernel
        identity = np.zeros((*shape[:3], num_inputs), np.float32)
        identity[shape[0] // 2, shape[1] // 2] = np.eye(num_inputs)
        return keras.ops.concatenate([identity, kernel[..., num_inputs:]], axis=-1)
