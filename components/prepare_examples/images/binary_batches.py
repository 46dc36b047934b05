"""Images in binary batches, as CIFAR-10 has them.

A batch is a run of records: the label's byte, then the planes of red, of green and of blue, each
row by row (https://www.cs.toronto.edu/~kriz/cifar.html). Examples hold the pixels row by row with
the colours together, as image libraries expect them.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import in_threads
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Shard
from trainer.workloads.declarations.sources import BinaryBatches

BATCH_BYTES = 786_688  # fits in the CPU's cache


def count_rows(kind: BinaryBatches, data_dir: Path) -> tuple[int, int]:
    """Return the rows of train and test, after checking every raw file."""
    rows = in_threads(lambda file: _checked_rows(kind, data_dir / file), [*kind.train, *kind.test])
    return sum(rows[: len(kind.train)]), sum(rows[len(kind.train) :])


def batches(kind: BinaryBatches, data_dir: Path, shard: Shard) -> Iterator[Batch]:
    """Yield the shard's images and labels, in the raw files' order."""
    for batch in raw_records(kind, data_dir, shard):
        yield batch[:, 1:].reshape(len(batch), kind.shape[2], -1), batch[:, 0]


def raw_records(kind: BinaryBatches, data_dir: Path, shard: Shard) -> Iterator[NDArray[np.uint8]]:
    """Yield the shard's raw records, uint8 [batch, bytes of a record]."""
    first, batch_size = 0, _batch_size(kind)
    for file in kind.train if shard.part == "train" else kind.test:
        path = data_dir / file
        num_rows = _num_rows(kind, path)
        start, stop = max(shard.start - first, 0), min(shard.stop - first, num_rows)
        for row in range(start, stop, batch_size):
            yield _read(path, row, min(row + batch_size, stop), record_bytes(kind))
        first += num_rows


def record_bytes(kind: BinaryBatches) -> int:
    """Return the size of a record: a label and an image."""
    return 1 + math.prod(kind.shape)


def _batch_size(kind: BinaryBatches) -> int:
    return max(1, BATCH_BYTES // record_bytes(kind))


def _read(path: Path, start: int, stop: int, size: int) -> NDArray[np.uint8]:
    """Return rows of a file; a memory map takes twice as long."""
    return np.fromfile(path, np.uint8, (stop - start) * size, offset=start * size).reshape(-1, size)


def _num_rows(kind: BinaryBatches, path: Path) -> int:
    num_bytes, size = path.stat().st_size, record_bytes(kind)
    if num_bytes % size or not num_bytes:
        sides = " by ".join(map(str, kind.shape))
        raise DataError(
            f"{path}: has {num_bytes:,} bytes, not a multiple of {size:,}, the size "
            f"of a record (one label and {sides} pixels): record "
            f"{num_bytes // size} (the first is 0) has {num_bytes % size:,}"
        )
    return num_bytes // size


def _checked_rows(kind: BinaryBatches, path: Path) -> int:
    num_rows = _num_rows(kind, path)
    # Mapped, as only one byte of each record is looked at.
    labels = np.memmap(path, np.uint8, "r").reshape(num_rows, -1)[:, 0]
    check_labels(labels, path, num_classes=kind.num_classes)
    return num_rows


def check_labels(labels: NDArray[np.uint8], path: Path, *, num_classes: int) -> None:
    """Raise DataError for a label that is the number of no class; names the first."""
    wrong = (labels >= num_classes).nonzero()[0]
    if wrong.size:
        raise DataError(
            f"{path}: label {wrong[0]} is {labels[wrong[0]]}; allowed are 0 to {num_classes - 1}"
        )
