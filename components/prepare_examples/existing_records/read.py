"""Reading of TFRecord files, plain or gzipped, with the checks of their sums."""

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import google_crc32c
import numpy as np
import pyarrow as pa

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.record_schema import (
    BYTES,
    FLOAT,
    INT,
    RecordFeature,
)
from components.prepare_examples.tfrecords.records import HEAD_BYTES, TAIL_BYTES, frame_head

BATCH_RECORDS = 1024
MAX_RECORD_BYTES = 1 << 31


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a file.

    Raises:
        DataError: the file is damaged, truncated or no TFRecord; names the record.
    """
    number = 0
    try:
        with _opened(path) as file:
            while head := file.read(HEAD_BYTES):
                number += 1
                (size,) = struct.unpack("<Q", head[:8].ljust(8, b"\0"))
                if size >= MAX_RECORD_BYTES or head != frame_head(size):
                    raise DataError(_damage(path, number, "its length does not fit its checksum"))
                content = file.read(size + TAIL_BYTES)
                record = content[:size]
                if len(content) != size + TAIL_BYTES:
                    raise DataError(_damage(path, number, "the file ends within it"))
                if content[size:] != _tail(record):
                    raise DataError(_damage(path, number, "its content does not fit its checksum"))
                yield record
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(_damage(path, number + 1, str(error))) from error


def batches(records: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield lists of BATCH_RECORDS records."""
    while batch := list(islice(records, BATCH_RECORDS)):
        yield batch


def sample_of(path: Path) -> dict[str, tuple[str, list[Any]]]:
    """Return the type and the values of each feature of a file's first record.

    Raises:
        DataError: the file has no record, or the first one is not a tf.train.Example.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    record = next(read_records(path), None)
    if record is None:
        raise DataError(f"{path} has no records")
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise DataError(f"{path}: the first record is not a tf.train.Example") from error
    kinds = {"float_list": FLOAT, "int64_list": INT, "bytes_list": BYTES}
    return {
        name: (kinds[kind], list(getattr(feature, kind).value))
        for name, feature in features.items()
        if (kind := feature.WhichOneof("kind"))
    }


def parse(records: Sequence[bytes], features: Sequence[RecordFeature]) -> dict[str, pa.Array]:
    """Return each feature of records as lists.

    Raises:
        ValueError: a record is not a tf.train.Example, or a feature has another type.
    """
    import tensorflow as tf

    try:
        found = tf.io.parse_example(list(records), {one.name: one.spec() for one in features})
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(str(error)) from error
    return {one.name: _as_lists(found[one.name]) for one in features}


def reason_of(record: bytes, features: Sequence[RecordFeature]) -> tuple[str, str]:
    """Return the name of a feature that a record has in another type, or "", and the reason."""
    for feature in features:
        try:
            parse([record], [feature])
        except ValueError as error:
            if "Could not parse example" in str(error):
                return "", "is not a tf.train.Example"
            return feature.name, f"is not of the type {feature.dtype}"
    return "", "cannot be parsed"


def _as_lists(ragged: Any) -> pa.Array:
    values = ragged.flat_values.numpy()
    offsets = pa.array(ragged.row_splits.numpy().astype(np.int32))
    content = pa.array(values, pa.binary()) if values.dtype == object else pa.array(values)
    return pa.ListArray.from_arrays(offsets, content)


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb") if is_gzip else path.open("rb"))


def _tail(record: bytes) -> bytes:
    crc32c = google_crc32c.value(record)
    return struct.pack("<I", ((crc32c >> 15 | crc32c << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _damage(path: Path, number: int, reason: str) -> str:
    return (
        f"{path}, record {number}: {reason}; the file is damaged, or not a TFRecord: copy it again"
    )
