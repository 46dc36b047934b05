"""Hash of a raw row over all columns of its file, declared or not, lists too.

The declaration has no influence, so a row stays in its split when a feature is added. A value has
the same hash in every kind of file: numbers are compared as doubles, times as seconds, texts
without blanks and separators, and the usual words for a missing value as missing.
"""

from collections import Counter
from collections.abc import Mapping
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.columns import hashed_names
from components.prepare_examples.tables.reading.parquet_columns import (
    decoded,
    is_list_type,
    to_doubles,
)
from components.prepare_examples.tables.rows import NUMBER_PATTERN, utf8_or_null
from components.prepare_examples.tables.table_schema import TIME, Column
from components.prepare_examples.tables.values.times import parse_times, wall_times
from components.prepare_examples.tfrecords.row_splits import MULTIPLIER, mix
from trainer.workloads.declarations.names import normal_form

Hashes = NDArray[np.uint64]

_MISSING = {b"", b"na", b"n/a", b"nan", b"none", b"null", b"inf", b"-inf", b"infinity"}
_NUMBER = NUMBER_PATTERN.decode().strip("^$")
_NUMBERS = rf"^[\s\[(]*{_NUMBER}([\s,;|]+{_NUMBER})*[\s\])]*$"
_ISO_TIME = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?$"
_SEPARATORS = b" \t\r\n,;|[]()\"'"
_NUMBER_TYPES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_UTC = Column(name="", kind=TIME)


def hash_raw_rows(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return a hash of each row, in whatever order the columns are; a missing value adds nothing.

    Args:
        columns: of a block, by the names in its file; texts of a CSV file are binary.
    """
    hashes = np.zeros(len(next(iter(columns.values()))), np.uint64)
    by_name = {normal_form(name): column for name, column in columns.items()}
    for name in hashed_names(by_name):
        values = _hash_values(by_name[name])
        salt = np.uint64(crc32(name.encode()))
        hashes += np.where(values == 0, values, mix(values + salt))
    return pa.array(mix(hashes))


def _hash_values(column: pa.Array) -> Hashes:
    """Return a hash of each value of a column of any type, 0 for a missing one."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _hash_numbers(wall_times(column, _UTC).cast(pa.int64()))
    if any(test(kind) for test in _NUMBER_TYPES):
        return _hash_numbers(to_doubles(column))
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return _hash_texts(column.cast(pa.string()))
    if is_list_type(kind):
        return _hash_lists(column)
    try:
        return _hash_texts(utf8_or_null(column.cast(pa.binary())))
    except pa.ArrowNotImplementedError:  # a struct, a map, a time of day
        shown = [None if value is None else str(value) for value in column.to_pylist()]
        return _hash_texts(pa.array(shown, pa.string()))


def _hash_lists(column: pa.Array) -> Hashes:
    """Return the sum of the hashes of each list's values; texts are hashed as in a CSV file."""
    column = column.cast(pa.list_(column.type.value_type))
    if pa.types.is_string(column.type.value_type):
        return _hash_texts(pc.binary_join(column, "|"))
    hashes = np.zeros(len(column), np.uint64)
    rows = pc.list_parent_indices(column).to_numpy()
    np.add.at(hashes, rows, _hash_values(column.flatten()))
    return hashes


def _hash_texts(texts: pa.Array) -> Hashes:
    trimmed = pc.utf8_trim_whitespace(texts)
    try:
        return _hash_number_texts(pc.if_else(pc.equal(trimmed, ""), None, trimmed))
    except pa.ArrowInvalid:
        encoded = trimmed.dictionary_encode()
        places: NDArray[np.int64] = encoded.indices.fill_null(-1).to_numpy()
        return np.append(_hash_distinct(encoded.dictionary), np.uint64(0))[places]


def _hash_distinct(texts: pa.Array) -> Hashes:
    hashes, rest = np.zeros(len(texts), np.uint64), np.ones(len(texts), bool)
    for pattern, hash_kind in _KINDS_OF_TEXTS.items():
        is_kind = rest & pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
        if is_kind.any():
            hashes[is_kind] = hash_kind(texts.filter(pa.array(is_kind)))
            rest &= ~is_kind
    hashes[rest] = _hash_words(texts.filter(pa.array(rest)))
    return hashes


def _hash_words(texts: pa.Array) -> Hashes:
    words = (
        text.lower().translate(None, _SEPARATORS) for text in texts.cast(pa.binary()).to_pylist()
    )
    sums = [0 if text in _MISSING else crc32(text) + 1 for text in words]
    return mix(np.array(sums, np.uint64))


def _hash_number_texts(texts: pa.Array) -> Hashes:
    return _hash_numbers(texts.cast(pa.float64()))


def _hash_number_lists(texts: pa.Array) -> Hashes:
    plain = pc.replace_substring_regex(texts, r"^[\s\[(]+|[\s\])]+$", "")
    numbers = pc.split_pattern_regex(plain, r"[\s,;|]+")
    return _hash_lists(numbers.cast(pa.list_(pa.float64())))


def _hash_times(texts: pa.Array) -> Hashes:
    """Return the hashes of seconds; of the texts where they are no times, as in 2024-02-31."""
    seconds = parse_times(texts, BadRows(), _UTC, zones=Counter())
    is_time = seconds.is_valid().to_numpy(zero_copy_only=False)
    return np.where(is_time, _hash_numbers(seconds), _hash_words(texts))


def _hash_numbers(numbers: pa.Array) -> Hashes:
    values = numbers.cast(pa.float64(), safe=False).fill_null(np.nan)
    values = values.to_numpy(zero_copy_only=False) + 0.0  # -0.0 is 0.0
    hashes = mix(values.view(np.uint64) + np.uint64(MULTIPLIER))
    return np.where(np.isfinite(values), hashes, np.uint64(0))


_KINDS_OF_TEXTS = {
    NUMBER_PATTERN.decode(): _hash_number_texts,
    _NUMBERS: _hash_number_lists,
    _ISO_TIME: _hash_times,
}
