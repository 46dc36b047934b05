"""Serialisation of images as framed tf.train.Examples, a whole batch at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.tfrecords import wire
from components.prepare_examples.tfrecords.records import TAIL_BYTES, frame_row, seal_rows

# Images, shape (n, channels, pixels), and their labels, shape (n,).
Batch = tuple[NDArray[np.uint8], NDArray[np.integer[Any]]]

ONE_BYTE = 128  # labels that are one byte of protobuf


def encode_images(
    images: NDArray[np.uint8], labels: NDArray[np.integer[Any]], *, num_classes: int = 0
) -> NDArray[np.uint8]:
    """Return framed Examples of images of one size, one per row: `image`, raw bytes, and `label`.

    They differ only in the bytes of the pixels and of the label, a single byte below 128. So one
    Example is repeated and these bytes are overwritten. With more classes every label takes two
    bytes, up to 16,384, which protobuf allows for small numbers too.

    Args:
        images: shape (n, channels, pixels); Examples hold a pixel's channels together.
        labels: shape (n,).
        num_classes: the number of classes, if it may be above 128.
    """
    count, num_channels, num_pixels = images.shape
    sizes = num_channels * num_pixels, 1 if num_classes <= ONE_BYTE else 2
    image, label = (wire.sized(wire.LIST_VALUES, bytes(size)) for size in sizes)
    label = wire.entry("label", wire.INT64_LIST, label)
    example = wire.sized(wire.FEATURES, wire.entry("image", wire.BYTES_LIST, image) + label)
    rows = np.tile(np.frombuffer(frame_row(example), np.uint8), (count, 1))
    stop = rows.shape[1] - TAIL_BYTES - len(label)  # the image's entry ends in its pixels
    pixels = rows[:, stop - sizes[0] : stop].reshape(count, num_pixels, num_channels)
    for channel in range(num_channels):  # 4 times as fast as one transpose
        pixels[:, :, channel] = images[:, channel]
    last = rows[:, :-TAIL_BYTES]  # the label's entry ends in its value
    if sizes[1] == 1:
        last[:, -1] = labels
    else:
        last[:, -2] = labels % ONE_BYTE | wire.HIGH_BIT
        last[:, -1] = labels // ONE_BYTE
    seal_rows(rows)
    return rows
