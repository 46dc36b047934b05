"""Serialises the rows of a table as tf.train.Example, a whole column at once.

Each feature's map entry is made for all rows as one binary column, and Arrow joins the columns. The
features are in the order of their names, and absent where a value is missing. tfx-bsl's
RecordBatchToExamplesEncoder takes several times as long, and it writes the features of a row in
another order each time (those of an unordered protobuf map): the same input would not give the same
bytes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from components.prepare_examples.tfrecords.records import fixed_binary
from components.prepare_examples.tfrecords.wire import (
    BYTES_LIST,
    FEATURES,
    FLOAT_LIST,
    HIGH_BIT,
    INT64_LIST,
    LIST_VALUES,
    MAX_VARINT_BYTES,
    entry,
    sized,
    varint,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def encode_rows(columns: "dict[str, pa.Array]") -> "pa.Array":
    """One serialised tf.train.Example a row; a missing value is an absent feature.

    Args:
        columns: by feature: float32, int64 or string, all of the same length.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    entries = [_entries(name, columns[name]) for name in sorted(columns)]
    empty = pa.scalar(b"", pa.binary())
    features = pc.binary_join_element_wise(
        *entries, empty, null_handling="replace", null_replacement=b""
    )
    lengths = pc.binary_length(features).to_numpy(zero_copy_only=False)
    heads = _by_value(lengths, lambda length: bytes([FEATURES]) + varint(length))
    return pc.binary_join_element_wise(heads, features, empty)


def _entries(name: str, column: "pa.Array") -> "pa.Array":
    """The serialised map entries of a feature, null where the value is."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return _float_entries(name, column)
    if pa.types.is_integer(column.type):
        return _int_entries(name, column)
    return _text_entries(name, column)


def _float_entries(name: str, column: "pa.Array") -> "pa.Array":
    """All entries are equal but for their last four bytes."""
    import numpy as np

    values = column.fill_null(0).to_numpy(zero_copy_only=False).astype("<f4")
    head = entry(name, FLOAT_LIST, bytes([LIST_VALUES, 4]) + bytes(4))[:-4]
    rows = np.empty((len(values), len(head) + 4), np.uint8)
    rows[:, :-4] = np.frombuffer(head, np.uint8)
    rows[:, -4:] = values.view(np.uint8).reshape(-1, 4)
    return _binary(rows, column)


def _int_entries(name: str, column: "pa.Array") -> "pa.Array":
    """Varints of one length make entries of one length: a matrix for each length that occurs."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = _varint_lengths(values)
    found = np.unique(lengths)
    if len(found) == 1:
        return _binary(_int_rows(name, values, int(found[0])), column)
    groups = [np.flatnonzero(lengths == length) for length in found]
    parts = [
        _binary(_int_rows(name, values[group], int(length)), None)
        for length, group in zip(found, groups, strict=True)
    ]
    order = np.empty(len(values), np.int64)
    order[np.concatenate(groups)] = np.arange(len(values))
    joined = pa.concat_arrays(parts).take(pa.array(order))
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.binary()))


def _int_rows(name: str, values: "NDArray[np.int64]", length: int) -> "NDArray[np.uint8]":
    import numpy as np

    head = entry(name, INT64_LIST, bytes([LIST_VALUES, length]) + bytes(length))[:-length]
    rows = np.empty((len(values), len(head) + length), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    rest = values.view(np.uint64)
    for place in range(length):
        more = HIGH_BIT if place < length - 1 else 0
        rows[:, len(head) + place] = (rest & np.uint64(0x7F)).astype(np.uint8) | more
        rest = rest >> np.uint64(7)
    return rows


def _varint_lengths(values: "NDArray[np.int64]") -> "NDArray[np.int64]":
    import numpy as np

    limits = np.array([1 << 7 * bits for bits in range(1, MAX_VARINT_BYTES)], np.uint64)
    return np.searchsorted(limits, values.view(np.uint64), side="right") + 1


def _text_entries(name: str, column: "pa.Array") -> "pa.Array":
    """Made once for each different text."""
    import pyarrow as pa

    encoded = column.dictionary_encode()
    entries = [_text_entry(name, text) for text in encoded.dictionary.to_pylist()]
    return pa.array(entries, pa.binary()).take(encoded.indices)


def _text_entry(name: str, text: str) -> bytes:
    return entry(name, BYTES_LIST, sized(LIST_VALUES, text.encode()))


def _by_value(values: "NDArray[np.int32]", make: "Callable[[int], bytes]") -> "pa.Array":
    """What `make` gives for each value, called once for each different one."""
    import numpy as np
    import pyarrow as pa

    unique, places = np.unique(values, return_inverse=True)
    made = pa.array([make(int(value)) for value in unique], pa.binary())
    return made.take(pa.array(places))


def _binary(rows: "NDArray[np.uint8]", column: "pa.Array | None") -> "pa.Array":
    """The rows of a matrix as a binary array, null where the column is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = fixed_binary(rows, rows.shape[1])
    if column is None or not column.null_count:
        return found
    return pc.if_else(column.is_valid(), found, pa.scalar(None, pa.binary()))
