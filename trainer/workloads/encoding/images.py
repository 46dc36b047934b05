"""Images of one size: stored, in requests and in the graph."""

import base64
import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from trainer.request_values import decode_base64
from trainer.runtime.lazy import tf
from trainer.workloads.encoding.image_files import encode_png, kind_of_file

_WHITE = 255
_MAX_SHARE = 16  # of the height, by which the default augmentation shifts an image
NUM_SHIFTS = 2  # down and to the right
# Up to so many shifted copies of a batch are made faster than its pixels are gathered one by one.
_MOST_COPIES = 9


def as_png(image: np.ndarray) -> dict[str, str]:
    """Return an image as a request has its file, a PNG in base64."""
    return {"b64": base64.b64encode(encode_png(image)).decode()}


def pixels_of(stored: Any, shape: tuple[int, ...]) -> Any:
    """Return stored bytes as uint8 [batch, *shape]; InvalidArgumentError if they differ."""
    size = math.prod(shape)
    message = f"an image does not have {size} bytes"
    is_whole = tf.debugging.assert_equal(tf.strings.length(stored), size, message=message)
    with tf.control_dependencies([is_whole] if is_whole is not None else []):
        # fixed_length pads shorter images with black and truncates longer ones.
        pixels = tf.io.decode_raw(stored, tf.uint8, fixed_length=size)
    return tf.reshape(pixels, [-1, *shape])


def as_floats(pixels: Any, *, channels: int, is_raw: bool = False) -> Any:
    """Return stored pixels as float32 [batch, height, width, channels], raw or from 0 to 1."""
    floats = tf.cast(pixels, tf.float32)
    floats = floats if is_raw else floats / float(_WHITE)
    return floats[..., tf.newaxis] if channels == 1 else floats


def shift_a_little(images: Any, noise: Any) -> Any:
    """Shift images by up to a sixteenth of their height; `noise` is [batch, NUM_SHIFTS].

    They are not mirrored, which would change letters and digits.
    """
    return shift(images, noise, max_shift=images.shape[1] // _MAX_SHARE, mode="REFLECT")


def shift(images: Any, noise: Any, *, max_shift: int, mode: str = "CONSTANT") -> Any:
    """Return images shifted at random.

    Args:
        images: a batch, [batch, height, width] and channels if there are several.
        noise: random numbers from 0 to 1, [batch, 2].
        max_shift: most pixels in each direction.
        mode: CONSTANT: new pixels are black; REFLECT: they are mirrored at the edge.
    """
    height, width = images.shape[1:3]
    channels = images.shape[3:]
    if mode == "REFLECT":
        padded = _mirror_edges(images, max_shift)
    else:
        padding = [[0, 0], [max_shift] * 2, [max_shift] * 2, *[[0, 0] for _ in channels]]
        padded = tf.pad(images, padding, mode)
    num_offsets = 2 * max_shift + 1
    rows, columns = tf.unstack(tf.cast(noise * num_offsets, tf.int32), axis=1)
    first_rows = tf.range(tf.shape(images)[0]) * (height + 2 * max_shift) + rows
    if num_offsets <= _MOST_COPIES:
        # From a copy for each column that may come first, whole rows can be taken.
        copies = [padded[:, :, first : first + width] for first in range(num_offsets)]
        first_rows += columns * tf.shape(images)[0] * (height + 2 * max_shift)
        taken = first_rows[:, tf.newaxis] + tf.range(height)
        return tf.gather(tf.reshape(tf.stack(copies), [-1, width, *channels]), taken)
    stride = width + 2 * max_shift
    pixels = tf.range(height)[:, tf.newaxis] * stride + tf.range(width)
    taken = (first_rows * stride + columns)[:, tf.newaxis, tf.newaxis] + pixels
    return tf.gather(tf.reshape(padded, [-1, *channels]), taken)


def _mirror_edges(images: Any, size: int) -> Any:
    """Return what tf.pad returns with the mode REFLECT, in a tenth to two thirds of the time."""
    top, bottom = images[:, 1 : size + 1], images[:, -size - 1 : -1]
    images = tf.concat([tf.reverse(top, [1]), images, tf.reverse(bottom, [1])], 1)
    left, right = images[:, :, 1 : size + 1], images[:, :, -size - 1 : -1]
    return tf.concat([tf.reverse(left, [2]), images, tf.reverse(right, [2])], 2)


def flip(images: Any, noise: Any) -> Any:
    """Return images, each mirrored left to right with probability 0.5.

    Args:
        images: a batch, [batch, height, width] and channels if there are several.
        noise: random numbers from 0 to 1, [batch].
    """
    is_flipped = tf.reshape(noise < 0.5, [-1] + [1] * (len(images.shape) - 1))  # noqa: PLR2004
    return tf.where(is_flipped, tf.reverse(images, [2]), images)


def parse_image(
    value: Any, shape: tuple[int, ...], decode_file: Callable[[bytes], np.ndarray]
) -> np.ndarray:
    """Return an image of this shape; ValueError if the value is invalid.

    Bytes that begin as an image file are one, even if they are as many as the raw pixels.
    """
    if isinstance(value, dict) and set(value) == {"b64"}:
        try:
            data = decode_base64(value["b64"])
        except ValueError as error:
            raise ValueError(f"image: {error}") from error
        kind, has_size = kind_of_file(data), len(data) == math.prod(shape)
        if has_size and not kind:
            return np.frombuffer(data, np.uint8).reshape(shape)
        try:
            return decode_file(data)
        except ValueError as error:
            form = f"a {kind} file" if kind else "neither raw pixels nor an image file that fits"
            remedy = "; send raw pixels that begin as such a file as a list" if has_size else ""
            raise ValueError(
                f"image has {len(data)} bytes of base64: {form}: {error}{remedy}"
            ) from error
    if not isinstance(value, list):
        raise ValueError(f"image must be a list of pixels, not {type(value).__name__}")
    plain = _as_bytes(value, shape)
    if plain is not None:
        return np.frombuffer(plain, np.uint8).reshape(shape)
    try:
        pixels = np.asarray(value)
    except ValueError as error:
        raise ValueError("image has rows of different lengths") from error
    if pixels.shape not in {shape, (math.prod(shape),)}:
        raise ValueError(f"image has shape {pixels.shape}, expected {shape}")
    if pixels.dtype.kind not in "iuf":
        raise ValueError("image has a pixel that is not a number")
    outside = (pixels < 0) | (pixels > _WHITE) | (pixels != np.floor(pixels))
    if outside.any():
        worst = pixels[outside].flat[0]
        raise ValueError(f"image has the pixel {worst}; pixels are whole numbers from 0 to 255")
    return pixels.astype(np.uint8).reshape(shape)


def _as_bytes(value: list[Any], shape: tuple[int, ...]) -> bytes | None:
    """Return the pixels of a correct image of integers, a fifth of the time of a general array.

    None for anything else, which `parse_image` must look at.
    """
    level: list[Any] = value
    if len(value) == shape[0] != math.prod(shape):
        for size in shape[1:]:
            if set(map(type, level)) != {list} or set(map(len, level)) != {size}:
                return None
            level = list(chain.from_iterable(level))
    if len(level) != math.prod(shape) or isinstance(level[0], bool):
        return None
    try:
        return bytes(level)
    except (ValueError, TypeError):
        return None


def decode_exactly(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Return the pixels of an image file; ValueError if it is none, or has another size."""
    channels = 3 if len(shape) == 3 else 1  # noqa: PLR2004

    try:
        image = tf.io.decode_image(data, channels=channels, expand_animations=False).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise ValueError("it is not a PNG, JPEG, GIF or BMP file") from error
    if image.shape[:2] != shape[:2]:
        raise ValueError(f"it has {image.shape[:2]} pixels, expected {shape[:2]}")
    return image.reshape(shape)
