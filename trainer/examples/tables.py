"""Tables of decoded examples in memory: a whole split, or a block of one.

See trainer.examples.stream for blocks, and trainer.examples.batches for the rows of a batch.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.errors import InputError, TextError, first_line
from trainer.examples.bad_records import RECORD_ERRORS, find_bad_record, find_text
from trainer.examples.manifest import ShardFile, SplitFiles, find_damage
from trainer.runtime.tracing import plain, traced
from trainer.workloads.base import Workload

# Records parsed per call: enough to make the overhead of a call negligible.
CHUNK_SIZE = 1024
# Of tables that Python handles one by one: 16 times as many, unless they are large.
MAX_TABLE_CHUNKS, MAX_TABLE_BYTES = 16, 16_000_000
_TO_THE_END = -1
# Raised by TensorFlow when a file is damaged or has changed.
_FILE_ERRORS = (tf.errors.DataLossError, tf.errors.NotFoundError, *RECORD_ERRORS)


@dataclass(frozen=True, kw_only=True)
class RecordRange:
    """Records of one file: `take` of them after the first `skip`."""

    shard: ShardFile
    skip: int
    take: int


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Decoder of records to rows of (features, labels), encoded for training or raw as stored.

    Labels may be missing in raw rows and where `may_lack_labels` says so.
    It keeps every n-th record, with `every` as n.
    """

    workload: Workload
    compression: str
    is_raw: bool = False
    every: int = 1

    def read_split(self, split: SplitFiles, *, may_lack_labels: bool = False) -> Any:
        """Return every n-th row of a split; raise as `read` does."""
        num_expected = -(-split.num_examples // self.every)
        return self.read(whole(split), num_expected=num_expected, may_lack_labels=may_lack_labels)

    def read(
        self, slices: Iterable[RecordRange], *, num_expected: int, may_lack_labels: bool = False
    ) -> Any:
        """Return the rows of slices as tensors in memory; InputError names an unreadable record."""
        slices = list(slices)
        # The table stays in the CPU's memory, where tf.data works, even if there is a GPU.
        with self.explaining_errors(piece.shard for piece in slices), tf.device("/device:CPU:0"):
            number = tf.constant(num_expected, tf.int64)
            return self._traced(as_tensors(slices), number, tf.constant(may_lack_labels))

    def rows(
        self, slices: tuple[tf.Tensor, ...], num_expected: tf.Tensor, may_lack_labels: Any = False
    ) -> Any:
        """Return the rows of (paths, skips, takes), for use in a tf.function."""
        chunks = self.chunks(slices, may_lack_labels=may_lack_labels)
        return _joined(chunks, num_expected).get_single_element()

    def chunks(
        self, slices: tuple[tf.Tensor, ...], *, may_lack_labels: Any = False
    ) -> tf.data.Dataset:
        """Return a dataset of small tables with the rows of (paths, skips, takes), in order."""
        may_lack_labels = tf.convert_to_tensor(may_lack_labels)
        decode = plain(lambda records: self.traced_decode(records, may_lack_labels))
        return self.records(slices).map(decode)

    def records(self, slices: tuple[tf.Tensor, ...]) -> tf.data.Dataset:
        """Return a dataset of batches of serialized Examples."""
        options = tf.data.Options()
        options.autotune.enabled = False
        records = tf.data.Dataset.from_tensor_slices(slices).flat_map(
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

    def decode(self, records: tf.Tensor, may_lack_labels: Any = False) -> tuple[Any, tf.Tensor]:
        """Return (features, labels) of a batch of serialized Examples."""
        features, labels = self.workload.parse(records)
        labels = _check_labels(labels, self.workload, may_be_missing=self.is_raw | may_lack_labels)
        return features if self.is_raw else self.workload.encode(features), labels

    @cached_property
    def traced_decode(self) -> Any:
        """`decode` as a graph, which is traced once for all splits."""
        signature = [tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.bool)]
        return traced(self.decode, input_signature=signature)

    @cached_property
    def specs(self) -> Any:
        """The types of the columns of (features, labels)."""
        return self.traced_decode.get_concrete_function().structured_outputs

    @cached_property
    def row_bytes(self) -> int:
        """The size of a decoded example; 0 if not all have the same."""
        specs = tf.nest.flatten(self.specs)
        sizes = [spec.shape[1:].num_elements() for spec in specs]
        if None in sizes or tf.string in [spec.dtype for spec in specs]:
            return 0
        return sum(size * spec.dtype.size for size, spec in zip(sizes, specs, strict=True))

    @cached_property
    def _traced(self) -> Any:
        columns = [tf.TensorSpec([None], kind) for kind in (tf.string, tf.int64, tf.int64)]
        arguments = [tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.bool)]
        return traced(self.rows, input_signature=[tuple(columns), *arguments])

    @contextlib.contextmanager
    def explaining_errors(self, shards: Iterable[ShardFile]) -> Iterator[None]:
        """Raise errors about these files as InputErrors that name the file and record."""
        shards = list(shards)
        try:
            yield
        except TextError as error:
            raise find_text(shards, self.compression, error) from error
        except _FILE_ERRORS as error:
            raise self.explain(shards, error) from error

    def find_bad_record(self, shards: Iterable[ShardFile]) -> InputError | None:
        """Return an error for the first record that cannot be decoded; None if there is none."""
        return find_bad_record(shards, self.compression, self.decode)

    def explain(self, shards: Iterable[ShardFile], error: Exception) -> InputError:
        """Return the InputError for these files, of a single record if one is found."""
        shards = list(shards)
        paths = ", ".join(dict.fromkeys(shard.path for shard in shards))
        unknown = InputError(f"cannot read the examples of {paths}: {first_line(error)}")
        return find_damage(shards, self.compression) or self.find_bad_record(shards) or unknown


class SplitChunks:
    """A split as small tables, read from its files in every iteration.

    They have `most_rows` at most, or CHUNK_SIZE if that is more.
    """

    def __init__(
        self,
        split: SplitFiles,
        decoder: Decoder,
        *,
        may_lack_labels: bool = False,
        most_rows: float = math.inf,
    ):
        self._split, self._decoder = split, decoder
        chunks = decoder.chunks(as_tensors(whole(split)), may_lack_labels=may_lack_labels)
        if split.num_examples > CHUNK_SIZE:
            most_rows = min(most_rows, MAX_TABLE_BYTES / measure_example(split, decoder))
            num_chunks = max(1, min(int(most_rows / CHUNK_SIZE), MAX_TABLE_CHUNKS))
            chunks = chunks.rebatch(num_chunks * CHUNK_SIZE)
        self._chunks = chunks.prefetch(2)

    def __iter__(self) -> Iterator[Any]:
        """Yield the tables; raise InputError as `Decoder.read` does."""
        num_rows = 0
        with self._decoder.explaining_errors(self._split.shards):
            for features, labels in self._chunks:
                num_rows += len(labels)
                yield features, labels
        if num_rows != self._split.num_examples:
            paths, size = ", ".join(self._split.paths), self._split.num_examples
            unknown = f"{paths} hold {num_rows} examples, the manifest has {size}"
            damage = find_damage(self._split.shards, self._decoder.compression)
            raise damage or InputError(unknown)


def whole(split: SplitFiles) -> list[RecordRange]:
    """Return slices of a split's whole files, to their ends: extra records are noticed."""
    return [RecordRange(shard=shard, skip=0, take=_TO_THE_END) for shard in split.shards]


def as_tensors(slices: Iterable[RecordRange]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the (paths, skips, takes) of slices."""
    slices = list(slices)
    return (
        tf.constant([piece.shard.path for piece in slices], tf.string),
        tf.constant([piece.skip for piece in slices], tf.int64),
        tf.constant([piece.take for piece in slices], tf.int64),
    )


def read_table(
    split: SplitFiles, workload: Workload, *, compression: str, raw: bool = False, every: int = 1
) -> tuple[Any, tf.Tensor]:
    """Return (encoded or raw features, labels) of every n-th row of a split, `every` being n."""
    decoder = Decoder(workload=workload, compression=compression, is_raw=raw, every=every)
    return decoder.read_split(split)


def table_dataset(split: SplitFiles, decoder: Decoder) -> tf.data.Dataset:
    """Return a dataset of a single element, the whole split."""
    num_expected = tf.constant(split.num_examples, tf.int64)
    return _joined(decoder.chunks(as_tensors(whole(split))), num_expected)


def measure_example(split: SplitFiles, decoder: Decoder) -> float:
    """Return the mean size of a decoded example in bytes.

    It follows from the shapes of the columns, or is measured on a split's first examples.
    """
    if decoder.row_bytes:
        return decoder.row_bytes
    first = first_rows(split, decoder, CHUNK_SIZE)
    return sum(_num_bytes(column) for column in tf.nest.flatten(first)) / len(first[1])


def first_rows(split: SplitFiles, decoder: Decoder, num_rows: int) -> tuple[Any, tf.Tensor]:
    """Return the first rows of a split, without a graph, whose making would take longer."""
    with decoder.explaining_errors(split.shards):
        records = next(iter(decoder.records(as_tensors(whole(split)))))
        return decoder.decode(records[:num_rows], may_lack_labels=True)


def sample_rows(split: SplitFiles, decoder: Decoder, most_rows: int) -> tuple[Any, np.ndarray]:
    """Return (features, labels) of every n-th row of a split, `most_rows` at most.

    They are read without a graph, whose making would take longer than some thousand rows.
    """
    every = -(-split.num_examples // most_rows)
    with decoder.explaining_errors(split.shards):
        records = replace(decoder, every=every).records(as_tensors(whole(split)))
        tables = [decoder.decode(some, may_lack_labels=True) for some in records]
    features, labels = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *tables)
    return features, labels.numpy()


def gather_rows(table: Any, rows: tf.Tensor) -> Any:
    """Return the given rows of (features, labels)."""
    return tf.nest.map_structure(lambda column: tf.gather(column, rows), table)


def _joined(chunks: tf.data.Dataset, num_expected: tf.Tensor) -> tf.data.Dataset:
    def checked(features: Any, labels: tf.Tensor) -> Any:
        message = "the files and the manifest have different numbers of examples"
        size = tf.shape(labels, tf.int64)[0]
        with tf.control_dependencies([tf.debugging.assert_equal(size, num_expected, message)]):
            return features, tf.identity(labels)

    # Room for one more row shows whether there are too many.
    return chunks.rebatch(num_expected + 1).take(1).map(plain(checked))


def _check_labels(labels: tf.Tensor, workload: Workload, *, may_be_missing: Any) -> tf.Tensor:
    """Return the labels after a check that none is missing; those to be learnt are not checked."""
    known = tf.where(may_be_missing, tf.zeros_like(labels), labels)
    checks = workload.label.assertions(labels, known, len(workload.labels))
    with tf.control_dependencies(checks):
        return tf.identity(labels)


def _num_bytes(column: tf.Tensor) -> int:
    if column.dtype == tf.string:
        # 24: TensorFlow's overhead for each string.
        return int(tf.reduce_sum(tf.strings.length(column) + 24))
    return int(tf.size(column)) * column.dtype.size
