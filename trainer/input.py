"""Reads the examples folder: the manifest, its checks, and a split's examples as one table.

A table is all examples of a split, decoded, in memory. A training batch is a gather from it, and
which rows make up batch number n is a pure function of (seed, n): nothing has to be replayed to
resume, and any worker can compute any batch, so each example is used exactly once per epoch for
any number of workers and of files.
"""

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from trainer.errors import InputError, first_line
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One file of a split; of a damaged one, `num_examples` are those before the damage."""

    path: str
    num_examples: int
    sha256: str
    is_damaged: bool = False


@dataclass(frozen=True, kw_only=True)
class Split:
    """The files of train, eval or test."""

    name: str
    num_examples: int
    shards: tuple[Shard, ...]

    @property
    def paths(self) -> list[str]:
        """The files, in order."""
        return [shard.path for shard in self.shards]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What an examples folder holds."""

    workload: str
    compression: str
    splits: dict[str, Split]


def read_manifest(examples_dir: str, *, workload: str) -> Manifest:
    """Returns the folder's manifest; InputError if it is not one of this workload's."""
    path = f"{examples_dir.rstrip('/')}/manifest.json"
    try:
        content = json.loads(_read_bytes(path))
        manifest = _parse_manifest(content, examples_dir.rstrip("/"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error!r}); prepare the examples again") from error
    if manifest.workload != workload:
        raise InputError(f"{path} is of the workload {manifest.workload!r}, not {workload!r}")
    return manifest


def checked_split(manifest: Manifest, name: str, *, skip_corrupt: int = 0) -> Split:
    """Returns a split after comparing each of its files with the manifest's checksum.

    At most `skip_corrupt` examples are left out because they cannot be read.
    """
    split = manifest.splits.get(name)
    if split is None or split.num_examples < 1:
        raise InputError(f"the manifest has no examples in the split {name!r}")
    shards, num_lost = [], 0
    for shard in split.shards:
        checked = _check_shard(shard, manifest.compression, budget=skip_corrupt - num_lost)
        num_lost += shard.num_examples - checked.num_examples
        shards.append(checked)
    if num_lost == split.num_examples:
        raise InputError(
            f"no example of the split {name!r} can be read; prepare the examples again"
        )
    return Split(name=name, num_examples=split.num_examples - num_lost, shards=tuple(shards))


def table_dataset(
    split: Split, workload: Workload, *, compression: str, raw: bool = False
) -> tf.data.Dataset:
    """Returns a dataset whose one element is the whole split: (encoded or raw features, labels)."""
    options = tf.data.Options()
    options.autotune.enabled = False
    records = _read_records(split, compression)
    # One more than expected, so that a file with too many examples is noticed.
    table = records.batch(split.num_examples + 1).map(workload.parse)
    table = table.map(
        lambda *rows: _check_rows(rows, split, num_classes=len(workload.labels))
    ).with_options(options)
    return table if raw else table.map(lambda raw, labels: (workload.encode(raw), labels))


def read_table(
    split: Split, workload: Workload, *, compression: str, raw: bool = False
) -> tuple[Any, tf.Tensor]:
    """Returns (encoded or raw features, labels) of a whole split."""
    try:
        return next(iter(table_dataset(split, workload, compression=compression, raw=raw)))
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, StopIteration) as error:
        raise InputError(damage_message(split, error)) from error


def adapt_workload(workload: Workload, split: Split, *, compression: str) -> Workload:
    """Returns the workload with what its model must know of the train split."""
    if type(workload).adapt is Workload.adapt:
        return workload
    features, _ = read_table(split, workload, compression=compression, raw=True)
    return workload.adapt({name: column.numpy() for name, column in features.items()})


def damage_message(split: Split, error: Exception) -> str:
    """Returns one line on a split whose records cannot be read."""
    paths = ", ".join(split.paths)
    return f"the examples of {split.name} ({paths}) cannot be read: {first_line(error)}"


def batch_rows(
    index: tf.Tensor, *, batch_size: int, num_examples: int, seed: int, part: range | None = None
) -> tf.Tensor:
    """Returns the rows of training batch `index`, or of the given part of its examples.

    Each epoch is a permutation of its own; a batch may span the end of one and the start of the
    next.
    """
    part = part or range(batch_size)
    offsets = tf.range(part.start, part.stop, dtype=tf.int64)
    positions = tf.cast(index, tf.int64) * batch_size + offsets
    epochs = positions // num_examples
    no_seed = tf.zeros_like(epochs)
    # tf.random.experimental.index_shuffle pads a matrix of seeds along the wrong axis (2.21).
    return tf.raw_ops.RandomIndexShuffle(
        index=positions % num_examples,
        seed=tf.stack([no_seed + seed, epochs, no_seed], axis=1),
        max_index=tf.constant(num_examples - 1, tf.int64),
        rounds=4,
    )


def batch_noise(index: tf.Tensor, shape: list[int], *, seed: int) -> tf.Tensor:
    """Returns the random numbers in [0, 1) that change the examples of training batch `index`."""
    seeds = tf.stack([tf.constant(seed, tf.int64), tf.cast(index, tf.int64)])
    return tf.random.stateless_uniform(shape, seeds)


def gather_rows(table: Any, rows: tf.Tensor) -> Any:
    """Returns the given rows of (features, labels)."""
    return tf.nest.map_structure(lambda column: tf.gather(column, rows), table)


def _read_bytes(path: str) -> bytes:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.NotFoundError as error:
        raise InputError(f"{path} is missing; prepare the examples first") from error
    except tf.errors.OpError as error:
        raise InputError(f"{path} cannot be read: {error.message}") from error


def _check_shard(shard: Shard, compression: str, *, budget: int) -> Shard:
    if hashlib.sha256(_read_bytes(shard.path)).hexdigest() == shard.sha256:
        return shard
    num_good, reason = _count_readable(shard.path, compression)
    num_lost = shard.num_examples - num_good
    if num_lost <= 0:
        raise InputError(
            f"{shard.path} differs from the manifest's sha256; prepare the examples again"
        )
    where = f"{shard.path} is damaged from record {num_good} on ({reason})"
    if num_lost > budget:
        raise InputError(
            f"{where}: {num_lost} examples are lost, --skip-corrupt allows {max(budget, 0)} more;"
            " prepare the examples again, or raise it"
        )
    logger.warning("%s: going on without %d examples", where, num_lost)
    return replace(shard, num_examples=num_good, is_damaged=True)


def _count_readable(path: str, compression: str) -> tuple[int, str]:
    """Returns how many records can be read before the first that cannot, and why it cannot."""
    count = 0
    try:
        for _ in tf.data.TFRecordDataset(path, compression_type=compression):
            count += 1
    except tf.errors.OpError as error:
        return count, first_line(error)
    return count, "the file ends early"


def _read_records(split: Split, compression: str) -> tf.data.Dataset:
    if not any(shard.is_damaged for shard in split.shards):
        return tf.data.TFRecordDataset(split.paths, compression_type=compression)
    # After a damaged record nothing can be found in its file: reading stops before it.
    counts = [shard.num_examples for shard in split.shards]
    files = tf.data.Dataset.from_tensor_slices((split.paths, tf.constant(counts, tf.int64)))
    return files.flat_map(
        lambda path, count: tf.data.TFRecordDataset(path, compression_type=compression).take(count)
    )


def _parse_manifest(content: dict[str, Any], folder: str) -> Manifest:
    return Manifest(
        workload=content["workload"],
        compression=content["compression"],
        splits={
            name: _parse_split(name, split, folder) for name, split in content["splits"].items()
        },
    )


def _parse_split(name: str, content: dict[str, Any], folder: str) -> Split:
    shards = tuple(
        Shard(
            path=f"{folder}/{_plain_name(shard['file'])}",
            num_examples=int(shard["num_examples"]),
            sha256=shard["sha256"],
        )
        for shard in content["shards"]
    )
    counted = sum(shard.num_examples for shard in shards)
    if counted != content["num_examples"]:
        raise ValueError(f"{name}: {content['num_examples']} examples, but {counted} in its shards")
    return Split(name=name, num_examples=counted, shards=shards)


def _plain_name(file: str) -> str:
    if "/" in file or file in {"", ".", ".."}:
        raise ValueError(f"{file!r} is not a file name")
    return file


def _check_rows(
    rows: tuple[Any, tf.Tensor], split: Split, *, num_classes: int
) -> tuple[Any, tf.Tensor]:
    features, labels = rows
    size = f"the shards do not hold the {split.num_examples} examples of the manifest"
    low, high = "a label is missing or negative", f"a label is not below {num_classes}"
    checks = [
        tf.debugging.assert_equal(tf.size(labels), split.num_examples, message=size),
        tf.debugging.assert_non_negative(labels, message=low),
        tf.debugging.assert_less(labels, tf.constant(num_classes, tf.int64), message=high),
    ]
    with tf.control_dependencies(checks):
        return features, tf.identity(labels)
