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
PREFETCHED = 2  # batches that are read while another one is predicted


def read_records(part: Json, predictor: Any) -> Iterator[Batch]:
    """Yield the examples of a file; one that cannot be parsed becomes an error of its batch.

    Raises:
        DataError: the file is damaged.
    """
    import tensorflow as tf

    from trainer.examples.bad_records import RECORD_ERRORS

    path = part["path"]
    dataset = tf.data.TFRecordDataset(path, "GZIP" if is_gzip(path) else "")
    num_read = 0
    try:
        first = next(iter(dataset.take(1).as_numpy_iterator()), b"")
        if is_sequence(first):
            raise DataError(f"{path}: the first record {SEQUENCE}")
        parse = _parser_of(predictor, has_keys=_has_keys(first))
        for records in dataset.batch(BATCH_ROWS).prefetch(PREFETCHED):
            rows = list(range(num_read + 1, num_read + len(records) + 1))
            try:
                keys, features = parse(records)
                yield Batch(path=path, rows=rows, keys=_texts(keys), features=features)
            except RECORD_ERRORS:
                yield _one_by_one(path, records, rows, parse, name=predictor.workload.name)
            num_read += len(rows)
    except (tf.errors.DataLossError, tf.errors.NotFoundError) as error:
        raise DataError(
            f"{path} is damaged after record {num_read:,} ({first_line(error)}); copy it again"
        ) from error


def _one_by_one(path: str, records: Any, rows: list[int], parse: Any, *, name: str) -> Batch:
    import tensorflow as tf

    from trainer.examples.bad_records import RECORD_ERRORS

    good, parsed, errors = [], [], []
    for row, record in zip(rows, records, strict=True):
        if is_sequence(record.numpy()):
            errors.append({"row": row, "reason": SEQUENCE})
            continue
        try:
            parsed.append(parse(record[tf.newaxis]))
            good.append(row)
        except RECORD_ERRORS as error:
            reason = f"is no example of {name}: {first_line(error)}"
            errors.append({"row": row, "reason": reason})
    if not parsed:
        return Batch(path=path, rows=[], keys=[], features={}, errors=errors)
    keys, features = tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *parsed)
    return Batch(path=path, rows=good, keys=_texts(keys), features=features, errors=errors)


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
