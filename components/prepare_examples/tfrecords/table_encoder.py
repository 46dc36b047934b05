"""Serialisation of a table's rows as tf.train.Examples, a whole column at once.

Each feature's map entries are built for all rows as one binary column, and Arrow joins the columns.
Features are sorted by name, and absent where a value is missing. tfx-bsl's
RecordBatchToExamplesEncoder takes several times as long and writes the features of a row in a new
order each time (an unordered protobuf map), so the same input would not give the same bytes.
"""

from collections.abc import Callable
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.tfrecords import wire
from components.prepare_examples.tfrecords.records import TAIL_BYTES, frame_head, masked_all


def encode_rows(columns: dict[str, pa.Array]) -> pa.Array:
    """Return a serialised tf.train.Example for each row; missing values are absent features.

    Args:
        columns: by feature; floats, which are stored as float32, int64, string or binary, or lists
            of the first three, all of one length.
    """
    pieces = [piece for name in sorted(columns) for piece in _entries(name, columns[name])]
    features = _joined(*pieces)
    heads = _heads(features, lambda length: bytes([wire.FEATURES]) + wire.varint(length))
    return _joined(heads, features)


def frame_records(records: pa.Array) -> pa.Buffer:
    """Return the framed bytes of an array of binary values."""
    if not len(records):
        return pa.py_buffer(b"")
    sums = [google_crc32c.value(record) for record in records.to_pylist()]
    tails = masked_all(np.array(sums, np.uint64))
    tail_offsets = np.arange(len(tails) + 1, dtype=np.int32) * np.int32(TAIL_BYTES)
    framed = _joined(_heads(records, frame_head), records, _sliced(tails, tail_offsets))
    _, offsets, data = framed.buffers()
    return data.slice(0, int(np.frombuffer(offsets, np.int32)[len(framed)]))


def _entries(name: str, column: pa.Array) -> tuple[pa.Array | bytes, ...]:
    """Return the pieces of a feature's serialised map entries, null where the value is."""
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        entries = _joined(*_entries(name, encoded.dictionary.cast(pa.binary())))
        return (entries.take(encoded.indices),)
    is_list = pa.types.is_list(column.type)
    values, offsets = column, np.arange(len(column) + 1, dtype=np.int32)
    if is_list:
        counts = np.asarray(pc.list_value_length(column).fill_null(0))
        values, offsets = pc.list_flatten(column), _offsets(counts)
    kind = wire.BYTES_LIST
    if pa.types.is_floating(values.type):
        kind = wire.FLOAT_LIST
        content = _sliced(np.asarray(values.fill_null(0), "<f4"), offsets * np.int32(4))
    elif pa.types.is_integer(values.type):
        kind = wire.INT64_LIST
        content = _varints(np.asarray(values.fill_null(0), np.int64), offsets)
    else:
        content = _texts(values)
        if is_list:
            content = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), content), b"")

    def head(length: int) -> bytes:
        """Return what precedes a list's content of this length, all that depends on it."""
        payload = bytes(length)
        if length and kind != wire.BYTES_LIST:
            payload = wire.sized(wire.LIST_VALUES, payload)
        whole = wire.entry(name, kind, payload)
        return whole[: len(whole) - length]

    heads = _heads(content, head)
    if not column.null_count:
        return heads, content
    missing = pa.scalar(None, pa.binary())
    return tuple(pc.if_else(column.is_valid(), piece, missing) for piece in (heads, content))


def _texts(values: pa.Array) -> pa.Array:
    """Return texts, or bytes, with their tag and length; each distinct text is serialised once."""
    if pa.types.is_string(values.type):
        encoded = values.dictionary_encode()
        distinct = encoded.dictionary.cast(pa.binary())
        return _texts(distinct).take(encoded.indices).fill_null(b"")
    sized = (wire.sized(wire.LIST_VALUES, value or b"") for value in values.to_pylist())
    return pa.array(sized, pa.binary())


def _varints(values: NDArray[np.int64], offsets: NDArray[np.int32]) -> pa.Array:
    """Return the varints of integers, those of each row one behind the other."""
    rest = values.view(np.uint64)
    limits = np.array([1 << 7 * bits for bits in range(1, wire.MAX_VARINT_BYTES)], np.uint64)
    lengths = np.searchsorted(limits, rest, side="right") + 1
    digits = np.empty((len(rest), lengths.max(initial=1)), np.uint8)
    for place in range(digits.shape[1]):
        more = (lengths > place + 1) * np.uint8(wire.HIGH_BIT)
        digits[:, place] = (rest & np.uint64(0x7F)).astype(np.uint8) | more
        rest = rest >> np.uint64(7)
    is_digit = np.arange(digits.shape[1]) < lengths[:, np.newaxis]
    return _sliced(digits[is_digit], _offsets(lengths)[offsets])


def _heads(contents: pa.Array, make: Callable[[int], bytes]) -> pa.Array | bytes:
    """Return what `make`, called once for each length, returns for that of each content."""
    lengths = pc.binary_length(contents).dictionary_encode()
    heads = [make(length) for length in lengths.dictionary.to_pylist()]
    return heads[0] if len(heads) == 1 else pa.array(heads, pa.binary()).take(lengths.indices)


def _joined(*pieces: pa.Array | bytes) -> pa.Array:
    """Return the pieces of each row in one text; missing ones are empty."""
    return pc.binary_join_element_wise(*pieces, b"", null_handling="replace", null_replacement=b"")


def _offsets(lengths: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _sliced(data: NDArray[Any], offsets: NDArray[np.int32]) -> pa.Array:
    """Return the bytes of an array, cut at the offsets."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
