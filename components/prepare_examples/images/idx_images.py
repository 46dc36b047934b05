"""Images and labels in idx files, as MNIST has them: two files for each part.

The format (https://yann.lecun.com/exdb/mnist, at the end): four bytes of magic (0, 0, type, number
of dimensions), one big-endian 32-bit size for each dimension, then the values in row-major order.
Only unsigned bytes (type 8) are supported.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.binary_batches import check_labels
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Shard
from trainer.workloads.declarations.sources import IdxImages

UNSIGNED_BYTE = 8
BATCH_BYTES = 784_000  # fits in the CPU's cache


@dataclass(frozen=True)
class Idx:
    """A checked idx file: `shape[0]` rows of `math.prod(shape[1:])` bytes, from `offset` on."""

    path: Path
    shape: tuple[int, ...]

    @property
    def offset(self) -> int:
        """The bytes of the header."""
        return 4 + 4 * len(self.shape)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return math.prod(self.shape[1:])

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return rows `start` to `stop`, flattened: shape (stop - start, row_bytes)."""
        values = np.fromfile(
            self.path,
            dtype=np.uint8,
            count=(stop - start) * self.row_bytes,
            offset=self.offset + start * self.row_bytes,
        )
        return values.reshape(stop - start, self.row_bytes)


def open_idx(path: Path, *, row_shape: tuple[int, ...]) -> Idx:
    """Check a file's magic number, dimensions and length; return its description.

    Args:
        path: the raw, uncompressed file.
        row_shape: the dimensions after the first one: () for labels, (28, 28) for images.

    Raises:
        DataError: the file is invalid; names it with the expected and actual values.
    """
    num_dimensions = 1 + len(row_shape)
    header_bytes = 4 + 4 * num_dimensions
    with path.open("rb") as file:
        header = file.read(header_bytes)
    magic = bytes([0, 0, UNSIGNED_BYTE, num_dimensions])
    if header[:4] != magic:
        raise DataError(
            f"{path}: starts with {header[:4].hex() or 'nothing'}, but an idx file of bytes in "
            f"{num_dimensions} dimensions starts with {magic.hex()}"
        )
    if len(header) < header_bytes:
        raise DataError(f"{path}: is shorter than its header of {header_bytes} bytes")
    shape = struct.unpack(f">{num_dimensions}I", header[4:])
    if shape[1:] != row_shape:
        raise DataError(f"{path}: its rows have the shape {shape[1:]}, expected {row_shape}")
    num_bytes, expected = path.stat().st_size, header_bytes + math.prod(shape)
    if num_bytes != expected:
        raise DataError(f"{path}: has {num_bytes} bytes, but its header specifies {expected}")
    return Idx(path=path, shape=shape)


def count_rows(kind: IdxImages, data_dir: Path) -> tuple[int, int]:
    """Return the rows of train and test, after checking every raw file."""
    return _checked_rows(kind, data_dir, kind.train), _checked_rows(kind, data_dir, kind.test)


def batches(kind: IdxImages, data_dir: Path, shard: Shard) -> Iterator[Batch]:
    """Yield the shard's images and labels, in the raw files' order."""
    images, labels = _open(kind, data_dir, shard.part)
    num_channels = kind.shape[2] if len(kind.shape) > 2 else 1  # noqa: PLR2004
    batch_size = max(1, BATCH_BYTES // images.row_bytes)
    for start in range(shard.start, shard.stop, batch_size):
        stop = min(start + batch_size, shard.stop)
        pixels = images.read(start, stop).reshape(stop - start, -1, num_channels)
        yield pixels.transpose(0, 2, 1), labels.read(start, stop).reshape(-1)


def _open(kind: IdxImages, data_dir: Path, part: str) -> tuple[Idx, Idx]:
    images = open_idx(data_dir / f"{part}-images-idx3-ubyte", row_shape=kind.shape)
    labels = open_idx(data_dir / f"{part}-labels-idx1-ubyte", row_shape=())
    return images, labels


def _checked_rows(kind: IdxImages, data_dir: Path, part: str) -> int:
    images, labels = _open(kind, data_dir, part)
    num_images, num_labels = images.shape[0], labels.shape[0]
    if num_images != num_labels:
        raise DataError(
            f"{images.path} has {num_images} images, {labels.path.name} {num_labels} labels"
        )
    values = labels.read(0, num_labels).reshape(-1)
    check_labels(values, labels.path, num_classes=kind.num_classes)
    return num_images
