"""Reads the examples folder: the manifest, its checks, and a split's examples as one table.

A table is all examples of a split, decoded, in memory. A training batch is a gather from it, and
which rows make up batch number n is a pure function of (seed, n): nothing has to be replayed to
resume, and any worker can compute any batch, so each example is used exactly once per epoch for
any number of workers and of files.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.errors import InputError, first_line
from trainer.workloads.base import Workload


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One file of a split."""

    path: str
    num_examples: int
    sha256: str


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


def checked_split(manifest: Manifest, name: str) -> Split:
    """Returns a split after comparing each of its files with the manifest's checksum."""
    split = manifest.splits.get(name)
    if split is None or split.num_examples < 1:
        raise InputError(f"the manifest has no examples in the split {name!r}")
    for shard in split.shards:
        if hashlib.sha256(_read_bytes(shard.path)).hexdigest() != shard.sha256:
            raise InputError(
                f"{shard.path} differs from the manifest's sha256; prepare the examples again"
            )
    return split


def table_dataset(
    split: Split, workload: Workload, *, compression: str, raw: bool = False
) -> tf.data.Dataset:
    """Returns a dataset whose one element is the whole split: (encoded or raw features, labels)."""
    options = tf.data.Options()
    options.autotune.enabled = False
    records = tf.data.TFRecordDataset(split.paths, compression_type=compression)
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
