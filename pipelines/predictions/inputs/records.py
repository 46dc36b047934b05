"""TFRecords of tf.train.Examples, as prepare_examples writes them or another program does."""

import functools
from collections.abc import Iterator
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import SEQUENCE, is_sequence
from components.prepare_examples.tables.reading.kinds import is_gzip
from pipelines.predictions.inputs.batch import BATCH_ROWS, Batch
from trainer import Json
from trainer.errors import first_line

KEY = "key"
# What a tf.train.Example has not; its parser would pass over them.
_FEATURE_LISTS = ("tensorflow.SequenceExample", ["feature_lists"])
NUM_PARSERS = 2  # batches that are parsed at once, in order
PREFETCHED = 2  # batches that are parsed while another one is predicted


def read_records(part: Json, predictor: Any) -> Iterator[Batch]:
    """Yield the examples of a file; one that cannot be parsed becomes an error of its batch.

    Raises:
        DataError: the file is damaged.
    """
    import tensorflow as tf

    from trainer.examples.bad_records import RECORD_ERRORS

    path = part["path"]
    num_read = 0
    try:
        reader = _Reader(path, predictor)
        try:
            for keys, features in reader.parsed():
                count = len(keys)
                rows = list(range(num_read + 1, num_read + count + 1))
                yield Batch(path=path, rows=rows, keys=_texts(keys), features=features)
                num_read += count
        except RECORD_ERRORS:  # from this batch on, record by record if need be
            for batch in reader.with_care(num_read):
                yield batch
                num_read += batch.num_read
    except (tf.errors.DataLossError, tf.errors.NotFoundError) as error:
        raise DataError(
            f"{path} is damaged after record {num_read:,} ({first_line(error)}); copy it again"
        ) from error


class _Reader:
    def __init__(self, path: str, predictor: Any):
        import tensorflow as tf

        self._path, self._name = path, predictor.workload.name
        records = tf.data.TFRecordDataset(path, "GZIP" if is_gzip(path) else "")
        options = tf.data.Options()
        options.autotune.enabled = False
        first = next(iter(records.take(1).as_numpy_iterator()), b"")
        if is_sequence(first):
            raise DataError(f"{path}: the first record {SEQUENCE}")
        self._parse = _parser_of(predictor, has_keys=_has_keys(first))
        self._records = records.batch(BATCH_ROWS).with_options(options)

    def parsed(self) -> Any:
        """Return a dataset of the keys and the features of all batches."""
        from trainer.runtime.tracing import plain

        parsed = self._records.map(plain(self._parse), num_parallel_calls=NUM_PARSERS)
        return parsed.prefetch(PREFETCHED)

    def with_care(self, num_read: int) -> Iterator[Batch]:
        from trainer.examples.bad_records import RECORD_ERRORS

        for batch in self._records.skip(num_read // BATCH_ROWS):
            rows = list(range(num_read + 1, num_read + len(batch) + 1))
            num_read += len(batch)
            try:
                keys, features = self._parse(batch)
                yield Batch(path=self._path, rows=rows, keys=_texts(keys), features=features)
            except RECORD_ERRORS:
                yield self._one_by_one(batch, rows)

    def _one_by_one(self, batch: Any, rows: list[int]) -> Batch:
        import tensorflow as tf

        from trainer.examples.bad_records import RECORD_ERRORS

        good, parsed, errors = [], [], []
        for row, record in zip(rows, batch, strict=True):
            if is_sequence(record.numpy()):
                errors.append({"row": row, "reason": SEQUENCE})
                continue
            try:
                parsed.append(self._parse(record[tf.newaxis]))
                good.append(row)
            except RECORD_ERRORS as error:
                reason = f"is no example of {self._name}: {first_line(error)}"
                errors.append({"row": row, "reason": reason})
        if not parsed:
            return Batch(path=self._path, rows=[], keys=[], features={}, errors=errors)
        keys, features = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *parsed)
        return Batch(
            path=self._path, rows=good, keys=_texts(keys), features=features, errors=errors
        )


@functools.lru_cache(maxsize=2)
def _parser_of(predictor: Any, *, has_keys: bool) -> Any:
    """Return the graph from serialized Examples to their keys and features, for all files."""
    import tensorflow as tf

    from trainer.runtime.tracing import traced

    def parse(records: Any) -> Any:
        features, _ = predictor.workload.parse(records)
        with tf.control_dependencies(tf.nest.flatten(features)):
            lists = tf.io.decode_proto(records, *_FEATURE_LISTS, [tf.string]).sizes
        with tf.control_dependencies([tf.debugging.assert_equal(lists, 0, SEQUENCE)]):
            features = tf.nest.map_structure(tf.identity, features)
        if not has_keys:
            return tf.fill(tf.shape(records), ""), features
        spec = {KEY: tf.io.FixedLenFeature([], tf.string, "")}
        return tf.io.parse_example(records, spec)[KEY], features

    return traced(parse, input_signature=[tf.TensorSpec([None], tf.string)])


def _has_keys(record: bytes) -> bool:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        example = tf.train.Example.FromString(record)
    except DecodeError:
        return False
    return bool(example.features.feature[KEY].WhichOneof("kind") == "bytes_list")


def _texts(keys: Any) -> list[str | None]:
    return [key.decode(errors="replace") or None for key in keys.numpy().tolist()]
