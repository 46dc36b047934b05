"""Hash of a raw row over all columns of its file, declared or not, lists too.

The declaration has no influence, so a row stays in its split when a feature is added, or is read in
another way. A value has the same hash in every kind of file and in every usual form. So a number
counts by its digits, without its sign, its point and the zeros at its ends: `1.234,50 €` may be
1234.5 or 1.2345, but the hash is the same. A time counts by its numbers in any order, with hours to
12 and years to 99, as 31.01.24 and 01/31/2024 have them. The usual words for a missing value count
as missing, and blanks, case and separators do not count.
"""

import re
from collections import Counter
from collections.abc import Mapping
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.parquet_columns import (
    decoded,
    is_list_type,
    is_number_type,
    to_doubles,
)
from components.prepare_examples.tables.rows import utf8_or_null
from components.prepare_examples.tables.values.times import parse_times, wall_times
from components.prepare_examples.tables.values.written import NUMBER_PATTERN
from components.prepare_examples.tfrecords.row_splits import MULTIPLIER, mix
from trainer.workloads.declarations.features import Timestamp
from trainer.workloads.encoding.moments import time_part

Hashes = NDArray[np.uint64]

_MISSING = {b"", b"na", b"n/a", b"nan", b"none", b"null", b"inf", b"-inf", b"infinity"}
_NUMBER = NUMBER_PATTERN.strip("^$")
_NUMBERS = rf"^[\s\[(]*{_NUMBER}([\s,;|]+{_NUMBER})*[\s\])]*$"
# With other signs, or a currency or percent sign around it: 1.234,5 and $1,234.5 and (12,5).
_GROUPS = r"\d{1,3}(?:[.,'\x{a0}\x{202f} ]\d{3})+(?:[.,]\d+)?|\d+[.,]?\d*|[.,]\d+"
_WRITTEN = rf"^[\s(+\-\p{{Sc}}]*(?:{_GROUPS})[\s)%‰\-\p{{Sc}}]*$"
_DIGITS = 12  # of a number that count
# Numbers of up to 15 digits are far from where it rounds up, and so errors of doubles do no harm.
_ROUNDING = 1 - 0.1235
_LEAST = 1e-290  # smaller numbers count as 0
_ISO_TIME = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?$"
# 31.12.2024, 12/31/24, 2024/12/31, 31-Dec-2024 and Dec 31, 2024, perhaps with a time of day.
_YEAR = r"(?:19|20)\d\d"
_DAYS = (
    rf"{_YEAR}[./\-]\d{{1,2}}[./\-]\d{{1,2}}",
    rf"\d{{1,2}}[./\- ]\d{{1,2}}[./\- ](?:{_YEAR}|\d\d)",
    rf"\d{{1,2}}[\- ]?[A-Za-z]{{3,9}}[\- ](?:{_YEAR}|\d\d)",
    rf"[A-Za-z]{{3,9}} \d{{1,2}}, {_YEAR}",
)
_CLOCK = r"(?:,? \d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp][Mm])?)?"
_TIME = rf"^(?:{'|'.join(_DAYS)}){_CLOCK}$"
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_CYCLES = {"year": 100, "hour": 12}
_SEPARATORS = b" \t\r\n,;|[]()\"'"
_UTC = Timestamp("")


def hash_raw_rows(columns: Mapping[str, pa.Array], names: Mapping[str, str]) -> pa.Array:
    """Return a hash of each row, in whatever order the columns are; a missing value adds nothing.

    Args:
        columns: of a block, by the names in its file; texts of a CSV file are binary.
        names: the name under which each column counts, see `hashed_names`.
    """
    hashes = np.zeros(len(next(iter(columns.values()))), np.uint64)
    for name in sorted(names.keys() & columns.keys()):
        values = _hash_values(columns[name])
        salt = np.uint64(crc32(names[name].encode()))
        hashes += np.where(values == 0, values, mix(values + salt))
    return pa.array(mix(hashes))


def _hash_values(column: pa.Array) -> Hashes:
    """Return a hash of each value of a column of any type, 0 for a missing one."""
    column = decoded(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _hash_seconds(wall_times(column, _UTC).cast(pa.int64()))
    if is_number_type(kind):
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
        is_kind = rest & np.asarray(pc.match_substring_regex(texts, pattern))
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


def _hash_written(texts: pa.Array) -> Hashes:
    digits = pc.replace_substring_regex(texts, r"[^0-9]", "")
    return _hash_numbers(digits.cast(pa.float64()))


def _hash_iso_times(texts: pa.Array) -> Hashes:
    """Return the hashes of times; of the texts where they are no times, as in 2024-02-31."""
    seconds = parse_times(texts, BadRows(), _UTC, zones=Counter())
    return np.where(seconds.is_valid(), _hash_seconds(seconds), _hash_words(texts))


def _hash_times(texts: pa.Array) -> Hashes:
    """Return the hashes of times by the numbers in their texts; of others with a word as texts."""
    hashes = _hash_words(texts)
    for row, text in enumerate(texts.to_pylist()):
        words = re.findall(r"[a-z]+", text.lower())
        months = [_MONTHS.index(word[:3]) + 1 for word in words if word[:3] in _MONTHS]
        if len(months) == len(words) - any(word in ("am", "pm") for word in words):
            seconds = re.sub(r"(:\d\d)\.\d+", r"\1", text)
            numbers = [int(part) for part in re.findall(r"\d+", seconds)]
            hashes[row] = _of_parts(np.array([_plain_parts(numbers, months)]))[0]
    return hashes


def _plain_parts(numbers: list[int], months: list[int]) -> list[int]:
    """Return the day's three numbers and the time's three, as `_hash_seconds` has them."""
    size = 3 - len(months)
    day, clock = numbers[:size] + months, numbers[size:]
    if clock:
        clock[0] %= _CYCLES["hour"]
    return [*(number % _CYCLES["year"] for number in day), *clock, *[0] * (3 - len(clock))]


def _hash_seconds(seconds: pa.Array) -> Hashes:
    """Return the hashes of times by their numbers, of which zeros do not count."""
    numbers = np.asarray(seconds.fill_null(0))
    units = ("year", "month", "day", "hour", "minute")
    parts = [time_part(numbers, unit) % _CYCLES.get(unit, 100) for unit in units]
    hashes = _of_parts(np.stack([*parts, numbers % 60], axis=1))
    return np.where(seconds.is_valid(), hashes, np.uint64(0))


def _of_parts(parts: NDArray[np.int64]) -> Hashes:
    hashes = np.where(parts == 0, np.uint64(0), _mixed(parts))
    return mix(hashes.sum(axis=1, dtype=np.uint64) + np.uint64(1))


def _hash_numbers(numbers: pa.Array) -> Hashes:
    """Return the hashes of the first digits of doubles, as if the point were after the first."""
    values = numbers.cast(pa.float64(), safe=False).fill_null(np.nan)
    values = np.abs(values)
    is_number = np.isfinite(values)
    values = np.where(is_number, values, 0.0)
    exponents = np.floor(np.log10(np.where(values > _LEAST, values, 1.0)))
    digits = np.floor(values * 10.0 ** (_DIGITS - 1 - exponents) + _ROUNDING)
    digits = np.where(digits < 10.0**_DIGITS, digits, digits / 10)
    return np.where(is_number, _mixed(digits), np.uint64(0))


def _mixed(numbers: NDArray[np.generic]) -> Hashes:
    return mix(numbers.astype(np.uint64) + np.uint64(MULTIPLIER))


_KINDS_OF_TEXTS = {
    NUMBER_PATTERN: _hash_number_texts,
    _WRITTEN: _hash_written,
    _NUMBERS: _hash_number_lists,
    _ISO_TIME: _hash_iso_times,
    _TIME: _hash_times,
}
