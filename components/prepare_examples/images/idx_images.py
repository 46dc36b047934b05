"""Images and labels in idx files, as MNIST has them: two files for each part."""

from collections.abc import Iterator
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.idx import Idx, open_idx
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Rows, Shard
from trainer.workloads.declarations.sources import IdxImages

BATCH_BYTES = 784_000  # fits in the CPU's cache


def splits(kind: IdxImages, data_dir: Path) -> dict[str, Rows]:
    """Return the rows of each split, after checking every raw file.

    Raises:
        DataError: a file is invalid; names it.
    """
    num_train, num_test = (_checked_rows(kind, data_dir, part) for part in (kind.train, kind.test))
    first_eval = num_train - num_train // kind.eval_share
    return {
        "train": Rows(kind.train, 0, first_eval),
        "eval": Rows(kind.train, first_eval, num_train),
        "test": Rows(kind.test, 0, num_test),
    }


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
    wrong = (values >= kind.num_classes).nonzero()[0]
    if wrong.size:
        raise DataError(
            f"{labels.path}: label {wrong[0]} is {values[wrong[0]]}; allowed are 0 to"
            f" {kind.num_classes - 1}"
        )
    return num_images
