"""Readers of the formats of images that a source may declare."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.prepare_examples.images import binary_batches, idx_images
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Rows, Shard
from trainer.workloads.declarations.sources import BinaryBatches, IdxImages, ImageFormat

READERS: dict[type, Any] = {BinaryBatches: binary_batches, IdxImages: idx_images}


def splits_of(kind: ImageFormat, data_dir: Path) -> dict[str, Rows]:
    """Return the rows of each split, after checking every raw file.

    Raises:
        DataError: a file is invalid; names it.
    """
    num_train, num_test = READERS[type(kind)].count_rows(kind, data_dir)
    train, test = (kind.train, kind.test) if isinstance(kind, IdxImages) else ("train", "test")
    first_eval = num_train - num_train // kind.eval_share
    return {
        "train": Rows(train, 0, first_eval),
        "eval": Rows(train, first_eval, num_train),
        "test": Rows(test, 0, num_test),
    }


def batches_of(kind: ImageFormat, data_dir: Path, shard: Shard) -> Iterator[Batch]:
    """Return the shard's images and labels, in the raw files' order."""
    batches: Iterator[Batch] = READERS[type(kind)].batches(kind, data_dir, shard)
    return batches


def num_channels(kind: ImageFormat) -> int:
    """Return the channels of an image."""
    return kind.shape[2] if len(kind.shape) > 2 else 1  # noqa: PLR2004


def row_bytes(kind: ImageFormat) -> int:
    """Return the bytes of an image."""
    return math.prod(kind.shape)
