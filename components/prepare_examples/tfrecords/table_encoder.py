"""Serialisation of a table's rows as tf.train.Examples, a whole column at once.

Each feature's map entries are built for all rows as one binary column, and Arrow joins the columns.
Features are sorted by name, and absent where a value is missing. tfx-bsl's
RecordBatchToExamplesEncoder takes several times as long and writes the features of a row in a new
order each time (an unordered protobuf map), so the same input would not give the same bytes.
"""

import functools
from collections.abc import Callable

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
        columns: by feature; float32, int64, string or binary, or lists of the first three, all of
            one length.
    """
    entries = [_entries(name, columns[name]) for name in sorted(columns)]
    empty = pa.scalar(b"", pa.binary())
    features = pc.binary_join_element_wise(
        *entries, empty, null_handling="replace", null_replacement=b""
    )
    lengths = pc.binary_length(features).to_numpy(zero_copy_only=False)
    heads = _by_value(lengths, lambda length: bytes([wire.FEATURES]) + wire.varint(length))
    return pc.binary_join_element_wise(heads, features, empty)


def frame_records(records: pa.Array) -> pa.Buffer:
    """Return the framed bytes of an array of binary values."""
    if not len(records):
        return pa.py_buffer(b"")
    sums = [google_crc32c.value(record) for record in records.to_pylist()]
    tails = masked_all(np.array(sums, np.uint64))
    heads = _by_value(pc.binary_length(records).to_numpy(zero_copy_only=False), frame_head)
    framed = pc.binary_join_element_wise(
        heads, records, _fixed_binary(tails.view(np.uint8), TAIL_BYTES), b""
    )
    return _content(framed)


def _entries(name: str, column: pa.Array) -> pa.Array:
    """Return the serialised map entries of a feature, null where the value is."""
    if pa.types.is_list(column.type):
        return _list_entries(name, column)
    if pa.types.is_floating(column.type):
        return _float_entries(name, column)
    if pa.types.is_integer(column.type):
        return _int_entries(name, column)
    if pa.types.is_binary(column.type):
        values = (value if value is None else _bytes(name, value) for value in column.to_pylist())
        return pa.array(values, pa.binary())
    encoded = column.dictionary_encode()
    entries = [_text_entry(name, text) for text in encoded.dictionary.to_pylist()]
    return pa.array(entries, pa.binary()).take(encoded.indices)


def _list_entries(name: str, column: pa.Array) -> pa.Array:
    """Return the entries of lists: each distinct value is serialised once, and Arrow joins them."""
    values = pc.list_flatten(column)
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    if pa.types.is_floating(values.type):
        kind, is_packed = wire.FLOAT_LIST, True
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype("<f4")
        content = _sliced(pa.py_buffer(numbers), offsets * np.int32(4))
    else:
        is_packed = pa.types.is_integer(values.type)
        kind = wire.INT64_LIST if is_packed else wire.BYTES_LIST
        encoded = values.dictionary_encode()
        make = wire.varint if is_packed else _sized_text
        made = pa.array([make(value) for value in encoded.dictionary.to_pylist()], pa.binary())
        pieces = pa.ListArray.from_arrays(pa.array(offsets), made.take(encoded.indices))
        content = pc.binary_join(pieces, b"")

    def head(length: int) -> bytes:
        """Return what precedes a list's content of this length, all that depends on it."""
        payload = (
            wire.sized(wire.LIST_VALUES, bytes(length)) if is_packed and length else bytes(length)
        )
        whole = wire.entry(name, kind, payload)
        return whole[: len(whole) - length]

    lengths = pc.binary_length(content).to_numpy(zero_copy_only=False)
    joined = pc.binary_join_element_wise(_by_value(lengths, head), content, b"")
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.binary()))


def _sized_text(text: str) -> bytes:
    return wire.sized(wire.LIST_VALUES, text.encode())


def _sliced(data: pa.Buffer, offsets: NDArray[np.int32]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), data]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _float_entries(name: str, column: pa.Array) -> pa.Array:
    """Return the entries of floats, which differ only in their last four bytes."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False).astype("<f4")
    head = wire.entry(name, wire.FLOAT_LIST, bytes([wire.LIST_VALUES, 4]) + bytes(4))[:-4]
    rows = np.empty((len(values), len(head) + 4), np.uint8)
    rows[:, :-4] = np.frombuffer(head, np.uint8)
    rows[:, -4:] = values.view(np.uint8).reshape(-1, 4)
    return _binary(rows, column)


def _int_entries(name: str, column: pa.Array) -> pa.Array:
    """Return the entries of integers, built as a matrix for each length of their varints."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = _varint_lengths(values)
    distinct = np.unique(lengths)
    if len(distinct) <= 1:  # none: a block without good rows
        return _binary(_int_rows(name, values, int(lengths.max(initial=1))), column)
    groups = [np.flatnonzero(lengths == length) for length in distinct]
    parts = [
        _binary(_int_rows(name, values[group], int(length)), None)
        for length, group in zip(distinct, groups, strict=True)
    ]
    order = np.empty(len(values), np.int64)
    order[np.concatenate(groups)] = np.arange(len(values))
    joined = pa.concat_arrays(parts).take(pa.array(order))
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.binary()))


def _int_rows(name: str, values: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    head = wire.entry(name, wire.INT64_LIST, bytes([wire.LIST_VALUES, length]) + bytes(length))[
        :-length
    ]
    rows = np.empty((len(values), len(head) + length), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    rest = values.view(np.uint64)
    for position in range(length):
        more = wire.HIGH_BIT if position < length - 1 else 0
        rows[:, len(head) + position] = (rest & np.uint64(0x7F)).astype(np.uint8) | more
        rest = rest >> np.uint64(7)
    return rows


def _varint_lengths(values: NDArray[np.int64]) -> NDArray[np.int64]:
    limits = np.array([1 << 7 * bits for bits in range(1, wire.MAX_VARINT_BYTES)], np.uint64)
    return np.searchsorted(limits, values.view(np.uint64), side="right") + 1


@functools.lru_cache(maxsize=1 << 16)
def _text_entry(name: str, text: str) -> bytes:
    return _bytes(name, text.encode())


def _bytes(name: str, value: bytes) -> bytes:
    return wire.entry(name, wire.BYTES_LIST, wire.sized(wire.LIST_VALUES, value))


def _by_value(values: NDArray[np.int32], make: "Callable[[int], bytes]") -> pa.Array:
    """Return the result of `make` for each value, called once for each distinct one."""
    unique, places = np.unique(values, return_inverse=True)
    made = pa.array([make(int(value)) for value in unique], pa.binary())
    return made.take(pa.array(places))


def _binary(rows: NDArray[np.uint8], column: pa.Array | None) -> pa.Array:
    binary = _fixed_binary(rows, rows.shape[1])
    if column is None or not column.null_count:
        return binary
    return pc.if_else(column.is_valid(), binary, pa.scalar(None, pa.binary()))


def _fixed_binary(data: NDArray[np.uint8], width: int) -> pa.Array:
    count = data.size // width
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _content(values: pa.Array) -> pa.Buffer:
    _, offsets, data = values.buffers()
    num_bytes = int(np.frombuffer(offsets, np.int32)[len(values)])
    return data.slice(0, num_bytes)
