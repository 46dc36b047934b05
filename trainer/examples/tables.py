"""Reads examples as tables, and says which rows of a table make up a training batch.

A table is decoded examples in memory: a whole split, or a block of one (see
trainer.examples.stream). A training batch is a gather from it, and which examples make up batch
number n is a pure function of (seed, n): nothing has to be replayed to resume, and any worker can
compute any batch, so each example is used exactly once per epoch for any number of workers and of
files.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorflow as tf

from trainer.errors import InputError, first_line
from trainer.examples.bad_records import find_bad_record
from trainer.examples.manifest import Shard, Split, find_damage
from trainer.runtime.tracing import plain, traced
from trainer.workloads.base import Workload

# Records that are parsed at once: enough that what a call costs does not count.
CHUNK_SIZE = 1024
_TO_THE_END = -1
# What TensorFlow says when a file is damaged, or is not what it was.
_DAMAGES = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Records of one file: `take` of them after the first `skip`."""

    shard: Shard
    skip: int
    take: int


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Turns records into rows of (features, labels): encoded for training, or raw as stored.

    With `every` above 1 it leaves out all but each so-manyth record.
    """

    workload: Workload
    compression: str
    is_raw: bool = False
    every: int = 1

    def read(self, slices: Iterable[Slice], *, num_expected: int) -> Any:
        """Returns the rows of some files as tensors in memory.

        Raises:
            InputError: names the file and the record that cannot be read.
        """
        slices = list(slices)
        # The table stays where tf.data works, also when there is a GPU.
        with self.naming_damage(part.shard for part in slices), tf.device("/device:CPU:0"):
            return self._traced(as_tensors(slices), tf.constant(num_expected, tf.int64))

    def rows(self, where: tuple[tf.Tensor, ...], num_expected: tf.Tensor) -> Any:
        """Returns the rows at (paths, skips, takes); to be traced in a tf.function."""
        return _joined(self.chunks(where), num_expected).get_single_element()

    def chunks(self, where: tuple[tf.Tensor, ...]) -> tf.data.Dataset:
        """Returns a dataset of small tables with the rows at (paths, skips, takes), in order."""
        return self.records(where).map(plain(self.decode))

    def records(self, where: tuple[tf.Tensor, ...]) -> tf.data.Dataset:
        """Returns a dataset of batches of serialized Examples."""
        options = tf.data.Options()
        options.autotune.enabled = False
        records = tf.data.Dataset.from_tensor_slices(where).flat_map(
            plain(
                lambda path, skip, take: (
                    tf.data.TFRecordDataset(path, compression_type=self.compression)
                    .skip(skip)
                    .take(take)
                )
            )
        )
        if self.every > 1:
            records = records.shard(self.every, 0)
        return records.batch(CHUNK_SIZE).with_options(options)

    def decode(self, records: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Returns (features, labels) of a batch of serialized Examples."""
        features, labels = self.workload.parse(records)
        labels = _check_labels(labels, num_classes=len(self.workload.labels))
        return features if self.is_raw else self.workload.encode(features), labels

    @cached_property
    def _traced(self) -> Any:
        where = [tf.TensorSpec([None], kind) for kind in (tf.string, tf.int64, tf.int64)]
        return traced(self.rows, input_signature=[tuple(where), tf.TensorSpec([], tf.int64)])

    @contextlib.contextmanager
    def naming_damage(self, shards: Iterable[Shard]) -> Iterator[None]:
        """Turns an error of TensorFlow about these files into an InputError."""
        try:
            yield
        except _DAMAGES as error:
            raise self.explain(shards, error) from error

    def explain(self, shards: Iterable[Shard], error: Exception) -> InputError:
        """Returns why these files cannot be read; of which record if that can be found."""
        shards = list(shards)
        paths = ", ".join(dict.fromkeys(shard.path for shard in shards))
        unknown = InputError(f"the examples of {paths} cannot be read: {first_line(error)}")
        return (
            find_damage(shards, self.compression)
            or find_bad_record(shards, self.compression, self.decode)
            or unknown
        )


class SplitChunks:
    """A split as small tables, read from its files each time that it is gone through."""

    def __init__(self, split: Split, decoder: Decoder):
        self._split, self._decoder = split, decoder
        self._chunks = decoder.chunks(as_tensors(whole(split))).prefetch(2)

    def __iter__(self) -> Iterator[Any]:
        """Yields one table after the other; InputError as from `Decoder.read`."""
        num_rows = 0
        with self._decoder.naming_damage(self._split.shards):
            for features, labels in self._chunks:
                num_rows += len(labels)
                yield features, labels
        if num_rows != self._split.num_examples:
            paths, size = ", ".join(self._split.paths), self._split.num_examples
            unknown = f"{paths} hold {num_rows} examples, but the manifest says {size}"
            damage = find_damage(self._split.shards, self._decoder.compression)
            raise damage or InputError(unknown)


def whole(split: Split) -> list[Slice]:
    """Returns all records of a split.

    To the files' ends, so that one with too many is noticed. After a damaged record nothing can be
    found in its file: reading stops before it.
    """
    return [
        Slice(shard=shard, skip=0, take=shard.num_examples if shard.is_damaged else _TO_THE_END)
        for shard in split.shards
    ]


def as_tensors(slices: Iterable[Slice]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the (paths, skips, takes) of slices."""
    slices = list(slices)
    return (
        tf.constant([part.shard.path for part in slices], tf.string),
        tf.constant([part.skip for part in slices], tf.int64),
        tf.constant([part.take for part in slices], tf.int64),
    )


def read_table(
    split: Split, workload: Workload, *, compression: str, raw: bool = False, every: int = 1
) -> tuple[Any, tf.Tensor]:
    """Returns (encoded or raw features, labels) of a split, or of each so-manyth of its rows."""
    decoder = Decoder(workload=workload, compression=compression, is_raw=raw, every=every)
    return decoder.read(whole(split), num_expected=-(-split.num_examples // every))


def table_dataset(split: Split, decoder: Decoder) -> tf.data.Dataset:
    """Returns a dataset whose one element is the whole split."""
    where, num_expected = as_tensors(whole(split)), tf.constant(split.num_examples, tf.int64)
    return _joined(decoder.chunks(where), num_expected)


def measure_example(split: Split, decoder: Decoder) -> float:
    """Returns the bytes that a decoded example takes, measured on the first ones of a split."""
    with decoder.naming_damage(split.shards):
        first = decoder.decode(next(iter(decoder.records(as_tensors(whole(split))))))
    return sum(_num_bytes(column) for column in tf.nest.flatten(first)) / len(first[1])


def batch_rows(
    index: tf.Tensor, *, batch_size: int, num_examples: int, seed: int, steps_per_block: int = 0
) -> tf.Tensor:
    """Returns the rows [batch_size] of training batch `index`, or [n, batch_size] of n batches.

    They are rows of the whole split's table or, with `steps_per_block`, of the table of the block
    that the batch lies in. Each epoch, or what of it lies in a block, is a permutation of its own;
    a batch may span the end of one and the start of the next.
    """
    index = tf.cast(index, tf.int64)[..., tf.newaxis]
    batches = index * batch_size + tf.range(batch_size, dtype=tf.int64)
    positions = tf.reshape(batches, [-1])
    epochs = positions // num_examples
    starts, ends, origins = epochs * num_examples, (epochs + 1) * num_examples, 0
    numbers = tf.zeros_like(epochs)
    if steps_per_block:
        block_size = steps_per_block * batch_size
        origins = positions // block_size * block_size
        starts, ends = tf.maximum(starts, origins), tf.minimum(ends, origins + block_size)
        numbers = 1 + origins // block_size
    # tf.random.experimental.index_shuffle pads a matrix of seeds along the wrong axis (2.21).
    rows = tf.raw_ops.RandomIndexShuffle(
        index=positions - starts,
        seed=tf.stack(
            [tf.fill(tf.shape(epochs), tf.cast(seed, tf.int64)), epochs, numbers], axis=1
        ),
        max_index=ends - starts - 1,
        rounds=4,
    )
    return tf.reshape(rows + starts - origins if steps_per_block else rows, tf.shape(batches))


def batch_noise(index: tf.Tensor, shape: list[int], *, seed: int) -> tf.Tensor:
    """Returns the random numbers in [0, 1) that change the examples of training batch `index`."""
    seeds = tf.stack([tf.constant(seed, tf.int64), tf.cast(index, tf.int64)])
    return tf.random.stateless_uniform(shape, seeds)


def gather_rows(table: Any, rows: tf.Tensor) -> Any:
    """Returns the given rows of (features, labels)."""
    return tf.nest.map_structure(lambda column: tf.gather(column, rows), table)


def _joined(chunks: tf.data.Dataset, num_expected: tf.Tensor) -> tf.data.Dataset:
    """Returns a dataset whose one element holds all rows of a dataset of tables."""

    def checked(features: Any, labels: tf.Tensor) -> Any:
        message = "the files do not hold as many examples as the manifest says"
        size = tf.size(labels, tf.int64)
        with tf.control_dependencies([tf.debugging.assert_equal(size, num_expected, message)]):
            return features, tf.identity(labels)

    # With room for one more row, so that it is seen when there are too many.
    return chunks.rebatch(num_expected + 1).take(1).map(plain(checked))


def _check_labels(labels: tf.Tensor, *, num_classes: int) -> tf.Tensor:
    low, high = "a label is missing or negative", f"a label is not below {num_classes}"
    checks = [
        tf.debugging.assert_non_negative(labels, message=low),
        tf.debugging.assert_less(labels, tf.constant(num_classes, tf.int64), message=high),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(labels)


def _num_bytes(column: tf.Tensor) -> int:
    if column.dtype == tf.string:
        # What TensorFlow keeps of a text beside its bytes.
        return int(tf.reduce_sum(tf.strings.length(column) + 24))
    return int(tf.size(column)) * column.dtype.size
