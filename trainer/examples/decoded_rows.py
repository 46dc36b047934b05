"""Decoded rows of a split, kept on the local disk: a stream decodes each record only once.

The rows are in a file without a name, which the system removes with the process, however it ends:
one array for each column, with the shards in the order of the manifest.
"""

import itertools
import logging
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import FileIO
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.examples.manifest import SplitFiles
from trainer.examples.tables import Decoder, RecordRange

logger = logging.getLogger(__name__)

_GB = 1e9
_MAX_SHARE_OF_DISK = 0.5  # of the free space
_DISK = "/var/tmp"  # unless TMPDIR says otherwise: /tmp may be in memory


@dataclass(frozen=True)
class _Column:
    """A column's place in the file, and the shape and type of its rows."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def place(self, row: int) -> int:
        return self.offset + row * math.prod(self.shape) * self.dtype.itemsize


class DecodedRows:
    """Reader of slices of a split's files, which decodes each row once and then keeps it."""

    def __init__(self, split: SplitFiles, decoder: Decoder, file: FileIO):
        """Keep rows in `file`; the rows of all columns must have a fixed size."""
        self._decoder, self._file = decoder, file
        weakref.finalize(self, file.close)
        sizes = [shard.num_examples for shard in split.shards]
        starts = itertools.accumulate(sizes, initial=0)
        self._starts = dict(zip(split.paths, starts, strict=False))
        self._is_kept = np.zeros(split.num_examples, bool)
        self._columns, offset = [], 0
        for spec in tf.nest.flatten(decoder.specs):
            shape, dtype = tuple(spec.shape[1:]), np.dtype(spec.dtype.as_numpy_dtype)
            self._columns.append(_Column(offset, shape, dtype))
            offset = self._columns[-1].place(split.num_examples)

    def read(self, slices: Iterable[RecordRange], *, num_expected: int) -> Any:
        """Return the rows of slices of files as tensors in memory; raise as `Decoder.read` does."""
        slices = list(slices)
        if all(self._has(piece) for piece in slices):
            return self._load(slices, num_expected)
        rows = self._decoder.read(slices, num_expected=num_expected)
        try:
            self._keep(slices, rows)
        except OSError as error:
            logger.warning("decoded examples are not kept for later epochs: %s", error.strerror)
        return rows

    def _has(self, piece: RecordRange) -> bool:
        return bool(self._is_kept[self._rows(piece)].all())

    def _rows(self, piece: RecordRange) -> slice:
        first = self._starts[piece.shard.path] + piece.skip
        return slice(first, first + piece.take)

    def _load(self, slices: Sequence[RecordRange], num_rows: int) -> Any:
        arrays = [np.empty((num_rows, *column.shape), column.dtype) for column in self._columns]
        self._transfer(slices, arrays, self._file.readinto)
        with tf.device("/device:CPU:0"):
            tensors = [tf.convert_to_tensor(array) for array in arrays]
        return tf.nest.pack_sequence_as(self._decoder.specs, tensors)

    def _keep(self, slices: Sequence[RecordRange], rows: Any) -> None:
        self._transfer(slices, [part.numpy() for part in tf.nest.flatten(rows)], self._file.write)
        for piece in slices:
            self._is_kept[self._rows(piece)] = True

    def _transfer(
        self,
        slices: Sequence[RecordRange],
        arrays: Sequence[NDArray[Any]],
        move: Callable[[memoryview], int],
    ) -> None:
        """Move rows between arrays and the file; `move` reads or writes some bytes of a memory."""
        at = 0
        for piece in slices:
            for column, array in zip(self._columns, arrays, strict=True):
                self._file.seek(column.place(self._rows(piece).start))
                view = array[at : at + piece.take].reshape(-1).view(np.uint8).data
                while view:
                    view = view[move(view) :]
            at += piece.take


def keep_rows(split: SplitFiles, decoder: Decoder) -> Decoder | DecodedRows:
    """Return a reader that keeps a split's decoded rows on the local disk, if it has room.

    Otherwise, and if rows have strings or no fixed size, it is the decoder itself.
    """
    row_bytes = decoder.row_bytes
    if not row_bytes:
        return decoder
    needed, folder = row_bytes * split.num_examples, os.environ.get("TMPDIR") or _DISK
    if not os.path.isdir(folder):
        folder = tempfile.gettempdir()
    if needed > (room := _MAX_SHARE_OF_DISK * shutil.disk_usage(folder).free):
        logger.info(
            "decoding the examples in every epoch: %.1f GB are more than half of the free space of"
            " %s, %.1f GB (TMPDIR names another folder)",
            needed / _GB,
            folder,
            2 * room / _GB,
        )
        return decoder
    logger.info("keeping %.2f GB of decoded examples for later epochs in %s", needed / _GB, folder)
    return DecodedRows(split, decoder, tempfile.TemporaryFile(dir=folder, buffering=0))
