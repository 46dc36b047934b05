"""Serialisation of images as framed tf.train.Examples, a whole batch at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.tfrecords import wire
from components.prepare_examples.tfrecords.records import TAIL_BYTES, frame_row, seal_rows

# Images, shape (n, channels, pixels), and their labels, shape (n,).
Batch = tuple[NDArray[np.uint8], NDArray[np.integer[Any]]]

ONE_BYTE, TWO_BYTES = 128, 128 * 128


class ImageEncoder:
    """Encoder of batches of images of one size: `image`, raw bytes, and `label`, an int64.

    Examples of one image size differ only in the bytes of the pixels and of the label, a single
    byte below 128. So one Example is repeated and these bytes are overwritten. With more classes
    every label takes two bytes, which protobuf allows for small numbers too.
    """

    def __init__(self, *, num_channels: int, num_pixels: int, num_classes: int = 0) -> None:
        num_bytes = num_channels * num_pixels
        self._label_bytes = 1 if num_classes <= ONE_BYTE else 2
        self._limit = ONE_BYTE if self._label_bytes == 1 else TWO_BYTES
        sized = [wire.sized(wire.LIST_VALUES, bytes(n)) for n in (num_bytes, self._label_bytes)]
        image = wire.entry("image", wire.BYTES_LIST, sized[0])
        label = wire.entry("label", wire.INT64_LIST, sized[1])
        example = wire.sized(wire.FEATURES, image + label)
        self._template = np.frombuffer(frame_row(example), np.uint8)
        self._rows = self._template[np.newaxis][:0]
        stop = len(self._template) - TAIL_BYTES - len(label)  # the image's entry ends in its pixels
        self._pixels, self._shape = slice(stop - num_bytes, stop), (num_pixels, num_channels)

    def encode(
        self, images: NDArray[np.uint8], labels: NDArray[np.integer[Any]]
    ) -> NDArray[np.uint8]:
        """Return one framed Example per row, in memory that the next call overwrites.

        Args:
            images: shape (n, channels, pixels); Examples hold a pixel's channels together.
            labels: shape (n,), each below 128, or 16,384 with more classes.
        """
        if labels.size and labels.max() >= self._limit:
            raise ValueError(f"labels must be below {self._limit}, found {labels.max()}")
        rows = self._repeated(len(images))
        pixels = rows[:, self._pixels].reshape(len(images), *self._shape)
        for channel in range(images.shape[1]):  # 4 times as fast as one transpose
            pixels[:, :, channel] = images[:, channel]
        if self._label_bytes == 1:  # the last bytes of the label's entry, which comes last
            rows[:, -TAIL_BYTES - 1] = labels
        else:
            rows[:, -TAIL_BYTES - 2] = labels % ONE_BYTE | wire.HIGH_BIT
            rows[:, -TAIL_BYTES - 1] = labels // ONE_BYTE
        seal_rows(rows)
        return rows

    def _repeated(self, count: int) -> NDArray[np.uint8]:
        if len(self._rows) < count:
            self._rows = np.tile(self._template, (count, 1))
        return self._rows[:count]
