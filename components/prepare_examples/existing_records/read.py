"""Reading of TFRecord files, plain or gzipped, with the checks of their sums."""

import struct
from collections.abc import Container, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.record_schema import (
    BYTES,
    FLOAT,
    INT,
    RecordFeature,
)
from components.prepare_examples.tables.reading.kinds import GZIP_ERRORS, open_bytes
from components.prepare_examples.tfrecords.records import (
    HEAD_BYTES,
    TAIL_BYTES,
    frame_head,
    frame_tail,
)

BATCH_RECORDS = 1024
SAMPLED = 100  # records
SEQUENCE = "is a tf.train.SequenceExample, whose lists are not read; write tf.train.Examples"
MAX_RECORD_BYTES = 1 << 31


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a file.

    Raises:
        DataError: the file is damaged, truncated or no TFRecord; names the record.
    """
    number = 0
    try:
        with open_bytes(str(path)) as file:
            while head := file.read(HEAD_BYTES):
                number += 1
                (size,) = struct.unpack("<Q", head[:8].ljust(8, b"\0"))
                if size >= MAX_RECORD_BYTES or head != frame_head(size):
                    raise DataError(_damage(path, number, "its length does not fit its checksum"))
                content = file.read(size + TAIL_BYTES)
                record = content[:size]
                if len(content) != size + TAIL_BYTES:
                    raise DataError(_damage(path, number, "the file ends within it"))
                if content[size:] != frame_tail(record):
                    raise DataError(_damage(path, number, "its content does not fit its checksum"))
                yield record
    except GZIP_ERRORS as error:
        raise DataError(_damage(path, number + 1, str(error))) from error


def batches(records: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield lists of BATCH_RECORDS records."""
    while batch := list(islice(records, BATCH_RECORDS)):
        yield batch


def sample_of(paths: Sequence[Path]) -> dict[str, tuple[str, list[Any]]]:
    """Return the type and the values of each feature where it first occurs in some records.

    Raises:
        DataError: no file has a record, or the first one is not a tf.train.Example.
    """
    path, first = next(((path, data) for path in paths for data in read_records(path)), (None, b""))
    if path is None:
        raise DataError(f"{paths[0]} has no records")
    if example_features(first) is None:
        raise DataError(f"{path}: the first record {why_no_example(first)}")
    seen: dict[str, tuple[str, list[Any]]] = {}
    for record in islice(read_records(path), SAMPLED):
        for name, dtype, values in example_features(record) or ():
            if values:
                seen.setdefault(name, (dtype, values))
    return seen


def example_features(record: bytes) -> list[tuple[str, str, list[Any]]] | None:
    """Return name, type and values of a record's features; None if it is no tf.train.Example.

    Features without a kind, as writers leave them for missing values, are left out.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return None
    if is_sequence(record):
        return None
    kinds = {"float_list": FLOAT, "int64_list": INT, "bytes_list": BYTES}
    return [
        (name, kinds[kind], list(getattr(feature, kind).value))
        for name, feature in features.items()
        if (kind := feature.WhichOneof("kind"))
    ]


def is_sequence(record: bytes) -> bool:
    """Return whether a record has the second field, feature lists, of tf.train.SequenceExample."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        return bool(tf.train.SequenceExample.FromString(record).HasField("feature_lists"))
    except DecodeError:
        return False


def why_no_example(record: bytes) -> str:
    """Return why a record cannot be read."""
    return SEQUENCE if is_sequence(record) else "is not a tf.train.Example"


def parse(
    records: Sequence[bytes], features: Sequence[RecordFeature]
) -> tuple[dict[int, tuple[str, str]], dict[str, pa.Array]]:
    """Return the records that cannot be read, and each feature of the others as lists.

    Each bad record has the name of the feature that it has in another type, or "", and the reason.
    """
    reasons = {
        number: ("", SEQUENCE) for number, record in enumerate(records) if is_sequence(record)
    }
    try:
        return reasons, _columns(records, reasons, features)
    except ValueError:
        for number, record in enumerate(records):
            if number not in reasons and (reason := _reason_of(record, features)):
                reasons[number] = reason
        return reasons, _columns(records, reasons, features)


def _columns(
    records: Sequence[bytes], bad: Container[int], features: Sequence[RecordFeature]
) -> dict[str, pa.Array]:
    """Return the features of all records but the bad ones; ValueError if one cannot be parsed."""
    import tensorflow as tf

    good = [record for number, record in enumerate(records) if number not in bad]
    if not good:
        return {}
    # All absent values are empty lists.
    specs = {one.name: tf.io.RaggedFeature(tf.dtypes.as_dtype(one.dtype)) for one in features}
    try:
        columns = tf.io.parse_example(good, specs)
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(str(error)) from error
    return {name: _as_lists(columns[name]) for name in specs}


def _reason_of(record: bytes, features: Sequence[RecordFeature]) -> tuple[str, str] | None:
    """Return the feature that a record has in another type, or "", and the reason; None: good."""
    for feature in features:
        try:
            _columns([record], (), [feature])
        except ValueError as error:
            if "Could not parse example" in str(error):
                return "", why_no_example(record)
            return feature.name, f"is not of the type {feature.dtype}"
    return None


def _as_lists(ragged: Any) -> pa.Array:
    values = ragged.flat_values.numpy()
    offsets = pa.array(ragged.row_splits.numpy().astype(np.int32))
    content = pa.array(values, pa.binary()) if values.dtype == object else pa.array(values)
    return pa.ListArray.from_arrays(offsets, content)


def _damage(path: Path, number: int, reason: str) -> str:
    return (
        f"{path}, record {number}: {reason}; the file is damaged, or not a TFRecord: copy it again"
    )
