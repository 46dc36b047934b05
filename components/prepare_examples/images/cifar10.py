"""CIFAR-10: 32 by 32 colour images of ten classes, from six binary batches.

A batch is a run of records of 3,073 bytes: the label, then 1,024 bytes of red, of green and of
blue, each row by row (https://www.cs.toronto.edu/~kriz/cifar.html). Examples hold the pixels row
by row with the colours together, as image libraries expect them.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import in_threads
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Rows, Shard

NUM_CHANNELS = 3
NUM_PIXELS = 32 * 32
RECORD_BYTES = 1 + NUM_CHANNELS * NUM_PIXELS
NUM_CLASSES = 10
EVAL_SHARE = 10
BATCH_SIZE = 256  # 0.8 MB, which fits in the CPU's cache
FILES = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}

SPLIT_RULE = (
    "by the given order: eval is the last tenth of the training batches (5,000 of 50,000), train "
    "what comes before it (45,000), test the test batch (10,000)"
)


def splits(data_dir: Path) -> dict[str, Rows]:
    """Return the rows of each split, after checking every raw file.

    Raises:
        DataError: a file is invalid; names it.
    """
    files = [*FILES["train"], *FILES["test"]]
    rows = in_threads(_checked_rows, [data_dir / file for file in files])
    num_train, num_test = sum(rows[: len(FILES["train"])]), sum(rows[len(FILES["train"]) :])
    first_eval = num_train - num_train // EVAL_SHARE
    return {
        "train": Rows("train", 0, first_eval),
        "eval": Rows("train", first_eval, num_train),
        "test": Rows("test", 0, num_test),
    }


def batches(data_dir: Path, shard: Shard) -> Iterator[Batch]:
    """Yield the shard's images and labels, in the raw files' order."""
    for batch in raw_records(data_dir, shard):
        yield batch[:, 1:].reshape(len(batch), NUM_CHANNELS, NUM_PIXELS), batch[:, 0]


def raw_records(data_dir: Path, shard: Shard) -> Iterator[NDArray[np.uint8]]:
    """Yield the shard's raw records, uint8 [at most BATCH_SIZE, RECORD_BYTES]."""
    first = 0
    for file in FILES[shard.part]:
        path = data_dir / file
        num_rows = _num_rows(path)
        start, stop = max(shard.start - first, 0), min(shard.stop - first, num_rows)
        for row in range(start, stop, BATCH_SIZE):
            yield _read(path, row, min(row + BATCH_SIZE, stop))
        first += num_rows


def _read(path: Path, start: int, stop: int) -> NDArray[np.uint8]:
    """Return rows of a file; a memory map takes twice as long."""
    count, offset = (stop - start) * RECORD_BYTES, start * RECORD_BYTES
    return np.fromfile(path, np.uint8, count, offset=offset).reshape(-1, RECORD_BYTES)


def _num_rows(path: Path) -> int:
    num_bytes = path.stat().st_size
    if num_bytes % RECORD_BYTES or not num_bytes:
        raise DataError(
            f"{path}: has {num_bytes:,} bytes, not a multiple of {RECORD_BYTES:,}, the size "
            "of a record (one label and 32 by 32 by 3 pixels): record "
            f"{num_bytes // RECORD_BYTES} (the first is 0) has {num_bytes % RECORD_BYTES:,}"
        )
    return num_bytes // RECORD_BYTES


def _checked_rows(path: Path) -> int:
    num_rows = _num_rows(path)
    for start in range(0, num_rows, BATCH_SIZE):
        labels = _read(path, start, min(start + BATCH_SIZE, num_rows))[:, 0]
        wrong = (labels >= NUM_CLASSES).nonzero()[0]
        if wrong.size:
            raise DataError(
                f"{path}: label {start + wrong[0]} is {labels[wrong[0]]}; allowed are 0 to 9"
            )
    return num_rows
