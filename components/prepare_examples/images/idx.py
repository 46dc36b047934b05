"""Strict reader of the idx format of MNIST (https://yann.lecun.com/exdb/mnist, at the end).

Four bytes of magic (0, 0, type, number of dimensions), one big-endian 32-bit size for each
dimension, then the values in row-major order. Only unsigned bytes (type 8) are supported.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError

UNSIGNED_BYTE = 8


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
    found, expected = path.stat().st_size, header_bytes + math.prod(shape)
    if found != expected:
        raise DataError(f"{path}: has {found} bytes, but its header specifies {expected}")
    return Idx(path=path, shape=shape)
