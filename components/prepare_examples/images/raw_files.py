"""Images in raw files: idx, as MNIST has them, and binary batches, as CIFAR-10 has them.

An idx file (https://yann.lecun.com/exdb/mnist, at the end) has four bytes of magic (0, 0, type,
number of dimensions), one big-endian 32-bit size for each dimension, then the values in row-major
order. Only unsigned bytes (type 8) are supported.

A binary batch (https://www.cs.toronto.edu/~kriz/cifar.html) is a run of records: the label's byte,
then the planes of red, of green and of blue, each row by row.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import in_threads
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Rows, Shard
from trainer.workloads.declarations.sources import BinaryBatches, ImageFormat

UNSIGNED_BYTE = 8
IDX_BATCH_BYTES, RECORD_BATCH_BYTES = 784_000, 786_688  # fit in the CPU's cache


def splits_of(kind: ImageFormat, data_dir: Path) -> dict[str, Rows]:
    """Return the rows of each split, after checking every raw file.

    Raises:
        DataError: a file is invalid; names it.
    """
    sizes = {}
    for part in ("train", "test"):
        files = _open(kind, data_dir, part)
        in_threads(lambda file: _check_labels(file, kind.num_classes), files)
        sizes[part] = sum(images.num_rows for images, _ in files)
    first_eval = sizes["train"] - sizes["train"] // kind.eval_share
    return {
        "train": Rows("train", 0, first_eval),
        "eval": Rows("train", first_eval, sizes["train"]),
        "test": Rows("test", 0, sizes["test"]),
    }


def batches_of(kind: ImageFormat, data_dir: Path, shard: Shard) -> Iterator[Batch]:
    """Yield the shard's images and labels, in the raw files' order."""
    first, channels = 0, num_channels(kind)
    for images, labels in _open(kind, data_dir, shard.part):
        num_bytes = RECORD_BATCH_BYTES if labels is None else IDX_BATCH_BYTES
        batch_size = max(1, num_bytes // images.row_bytes)
        start, stop = max(shard.start - first, 0), min(shard.stop - first, images.num_rows)
        for row in range(start, stop, batch_size):
            rows = images.read(row, min(row + batch_size, stop))
            if labels is None:
                yield rows[:, 1:].reshape(len(rows), channels, -1), rows[:, 0]
            else:
                pixels = rows.reshape(len(rows), -1, channels).transpose(0, 2, 1)
                yield pixels, labels.read(row, row + len(rows)).reshape(-1)
        first += images.num_rows


def num_channels(kind: ImageFormat) -> int:
    """Return the channels of an image."""
    return kind.shape[2] if len(kind.shape) > 2 else 1  # noqa: PLR2004


def row_bytes(kind: ImageFormat) -> int:
    """Return the bytes of an image."""
    return math.prod(kind.shape)


@dataclass(frozen=True)
class RawFile:
    """A checked file of rows of bytes."""

    path: Path
    num_rows: int
    row_bytes: int
    header_bytes: int = 0

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return rows `start` to `stop`, flattened; a memory map takes twice as long."""
        num_bytes, offset = (stop - start) * self.row_bytes, start * self.row_bytes
        content = np.fromfile(self.path, np.uint8, num_bytes, offset=self.header_bytes + offset)
        return content.reshape(-1, self.row_bytes)


def open_idx(path: Path, *, row_shape: tuple[int, ...]) -> RawFile:
    """Check a file's magic number, dimensions and length; return its description.

    `row_shape` are the dimensions after the first one: () for labels, (28, 28) for images.

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
    return RawFile(path, shape[0], math.prod(row_shape), header_bytes)


def _open(kind: ImageFormat, data_dir: Path, part: str) -> list[tuple[RawFile, RawFile | None]]:
    """Return the files of a part, each with that of its labels, unless it has them itself."""
    if isinstance(kind, BinaryBatches):
        return [(_open_batch(kind, data_dir / name), None) for name in getattr(kind, part)]
    name = getattr(kind, part)
    images = open_idx(data_dir / f"{name}-images-idx3-ubyte", row_shape=kind.shape)
    labels = open_idx(data_dir / f"{name}-labels-idx1-ubyte", row_shape=())
    if images.num_rows != labels.num_rows:
        raise DataError(
            f"{images.path} has {images.num_rows} images, {labels.path.name} {labels.num_rows}"
            " labels"
        )
    return [(images, labels)]


def _open_batch(kind: BinaryBatches, path: Path) -> RawFile:
    num_bytes, size = path.stat().st_size, 1 + row_bytes(kind)
    if num_bytes % size or not num_bytes:
        sides = " by ".join(map(str, kind.shape))
        raise DataError(
            f"{path}: has {num_bytes:,} bytes, not a multiple of {size:,}, the size "
            f"of a record (one label and {sides} pixels): record "
            f"{num_bytes // size} (the first is 0) has {num_bytes % size:,}"
        )
    return RawFile(path, num_bytes // size, size)


def _check_labels(file: tuple[RawFile, RawFile | None], num_classes: int) -> None:
    images, own = file
    labels = own or images  # whose first byte is the label
    values = labels.read(0, labels.num_rows)[:, 0]
    wrong = (values >= num_classes).nonzero()[0]
    if wrong.size:
        raise DataError(
            f"{labels.path}: label {wrong[0]} is {values[wrong[0]]}; allowed are 0 to"
            f" {num_classes - 1}"
        )
