"""MNIST: 28 by 28 grey images of ten digits, from four idx files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.idx import Idx, open_idx
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Rows, Shard

ROW_SHAPE = (28, 28)
NUM_CLASSES = 10
EVAL_SHARE = 12
BATCH_SIZE = 1000  # 0.8 MB, which fits in the CPU's cache

SPLIT_RULE = (
    "by the given order: eval is the last twelfth of the training file (5,000 of 60,000), train "
    "what comes before it (55,000), test the t10k file (10,000)"
)


def splits(data_dir: Path) -> dict[str, Rows]:
    """Return the rows of each split, after checking every raw file.

    Raises:
        DataError: a file is invalid; names it.
    """
    num_train, num_test = (_checked_rows(data_dir, part) for part in ("train", "t10k"))
    first_eval = num_train - num_train // EVAL_SHARE
    return {
        "train": Rows("train", 0, first_eval),
        "eval": Rows("train", first_eval, num_train),
        "test": Rows("t10k", 0, num_test),
    }


def batches(data_dir: Path, shard: Shard) -> Iterator[Batch]:
    """Yield the shard's images and labels, in the raw files' order."""
    images, labels = _open(data_dir, shard.part)
    for start in range(shard.start, shard.stop, BATCH_SIZE):
        stop = min(start + BATCH_SIZE, shard.stop)
        yield images.read(start, stop)[:, np.newaxis], labels.read(start, stop).reshape(-1)


def _open(data_dir: Path, part: str) -> tuple[Idx, Idx]:
    images = open_idx(data_dir / f"{part}-images-idx3-ubyte", row_shape=ROW_SHAPE)
    labels = open_idx(data_dir / f"{part}-labels-idx1-ubyte", row_shape=())
    return images, labels


def _checked_rows(data_dir: Path, part: str) -> int:
    images, labels = _open(data_dir, part)
    num_images, num_labels = images.shape[0], labels.shape[0]
    if num_images != num_labels:
        raise DataError(
            f"{images.path} has {num_images} images, {labels.path.name} {num_labels} labels"
        )
    values = labels.read(0, num_labels).reshape(-1)
    wrong = (values >= NUM_CLASSES).nonzero()[0]
    if wrong.size:
        raise DataError(
            f"{labels.path}: label {wrong[0]} is {values[wrong[0]]}; allowed are 0 to 9"
        )
    return num_images
