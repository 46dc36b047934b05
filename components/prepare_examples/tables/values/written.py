"""Columns of numbers, texts and lists as people write them, read as requests are.

See declarations.written.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.output.quarantine import BadRows
from trainer.workloads.declarations.features import Category, Number
from trainer.workloads.declarations.features.number import BRACKETS
from trainer.workloads.declarations.storage import TEXT
from trainer.workloads.declarations.written import (
    BELOW_ZERO,
    DIGITS,
    NEGATIVE,
    NO_BREAK_SPACES,
    SPELLINGS,
    NumberLimits,
    Written,
    plain_text,
)

# A number as programs write it; \d would match digits of other scripts.
NUMBER_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
Rows = NDArray[np.int64]


def plain_texts(
    texts: pa.Array, markers: Sequence[str] = (), *, is_spelled: bool = True
) -> pa.Array:
    """Return texts without blanks around them; null for an empty one and for a marker.

    With `is_spelled` true and false are in lower case.
    """
    plain = pc.utf8_trim_whitespace(texts)
    missing = ["", *(map(plain_text, markers) if is_spelled else markers)]
    for spelling in dict.fromkeys(SPELLINGS.values()) if is_spelled else ():
        spellings = [text for text, plain_one in SPELLINGS.items() if plain_one == spelling]
        is_other = pc.is_in(plain, pa.array(spellings))
        if pc.any(is_other).as_py():
            plain = pc.if_else(is_other, spelling, plain)
    is_missing = pc.is_in(plain, pa.array(missing, pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), plain)


def numbers_of(texts: pa.Array, form: Written) -> pa.Array:
    """Return texts as float64, as `number_of` reads each; null for those in another form."""
    digits = texts
    if not form.is_plain:
        texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, NO_BREAK_SPACES, " "))
        for sign in NEGATIVE.keys() & form.signs:
            texts = pc.replace_substring_regex(texts, NEGATIVE[sign], BELOW_ZERO)
        point, comma = DIGITS[form.written]
        is_written = pc.match_substring_regex(texts, form.pattern)
        digits = pc.replace_substring_regex(texts, form.pattern, r"\1\2")
        if comma:
            digits = pc.replace_substring(digits, comma, "")
        digits = pc.if_else(is_written, pc.replace_substring(digits, point, "."), None)
    is_number = pc.match_substring_regex(digits, NUMBER_PATTERN)
    numbers = pc.if_else(is_number, digits, pa.scalar(None, pa.string())).cast(pa.float64())
    for sign, factor in form.factors.items():
        if factor != 1:
            is_last = pc.ends_with(texts, sign)
            numbers = pc.if_else(is_last, pc.multiply(numbers, factor), numbers)
    return numbers


def mapped(column: pa.Array, function: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """Return the function's result for each text, called once for each distinct one."""
    encoded = column.dictionary_encode()
    results = [function(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(results, kind).take(encoded.indices)


def fit_float32(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each value is finite in the type that examples have."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.isfinite(values.astype(np.float32))


def check_limits(
    column: pa.Array, name: str, limits: NumberLimits, bad: BadRows, *, rows: Rows | None = None
) -> None:
    """Add rows with a value outside the limits, or that is not finite in float32, to `bad`.

    `rows` has the row of each value of lists.
    """
    values = np.asarray(column, np.float64)
    is_finite = fit_float32(values)
    is_possible = is_finite
    with np.errstate(invalid="ignore"):
        if limits.low is not None:
            is_possible = is_possible & (values >= limits.low)
        if limits.high is not None:
            is_possible = is_possible & (values <= limits.high)
    if is_possible.all():
        return

    def describe(place: int) -> str:
        allowed = limits.allowed if is_finite[place] else "numbers of float32"
        return f"{values[place]:.15g} is impossible; allowed: {allowed}"

    bad.add(np.asarray(column.is_valid()) & ~is_possible, name, describe, rows=rows)


def to_integers(column: pa.Array, name: str, bad: BadRows, *, rows: Rows | None = None) -> pa.Array:
    """Return a column as int64; rows with fractions are bad."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    missing = np.asarray(column.is_null())
    values = np.asarray(column, np.float64)
    whole = np.clip(np.trunc(np.nan_to_num(values)), -(2.0**62), 2.0**62)
    bad.add(
        ~missing & (whole != values),
        name,
        lambda place: f"{values[place]:.15g} is not a whole number",
        rows=rows,
    )
    return pa.array(whole.astype(np.int64), mask=missing)


def parse_list(column: pa.Array, known: Number | Category, bad: BadRows) -> pa.Array:
    """Return a column of lists, from texts or from Parquet's lists; an empty text is null.

    Args:
        column: texts with the column's separator, or lists.
        known: the column in the schema.
        bad: gets the rows with values of another type, outside the limits, or of another number.
    """
    is_number = known.storage != TEXT
    if not pa.types.is_list(column.type):
        texts = pc.utf8_trim(column, BRACKETS) if is_number else column
        column = pc.split_pattern(texts, pattern=known.separator)
    lengths, rows, values = _flat(column)
    if is_number:
        values = _numbers(values, rows, known, bad)
        check_limits(values, known.name, known, bad, rows=rows)
        if isinstance(known, Number):
            is_wrong = (lengths != known.length) & (lengths >= 0)
            expected = f"numbers instead of {known.length}"
            bad.add(is_wrong, known.name, lambda row: f"{lengths[row]} {expected}")
        else:
            values = to_integers(values, known.name, bad, rows=rows)
        values = values.fill_null(0)
    else:
        values = pc.utf8_trim_whitespace(values.cast(pa.string())).fill_null("")
        is_missing = pc.is_in(values, pa.array(["", *known.missing], pa.string()))
        kept = ~np.asarray(is_missing)  # as requests are read
        values, rows = values.filter(pa.array(kept)), rows[kept]
        counts = np.bincount(rows, minlength=len(lengths))
        lengths = np.where(counts == 0, -1, counts)
    return _nested(lengths, values)


def _flat(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Return the length of each row's list, the row of each value, and the values.

    The length is -1 for null and for an empty list, which a text cannot tell apart.
    """
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    lengths = np.where(lengths == 0, -1, lengths.astype(np.int64))
    rows = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 0))
    return lengths, rows, pc.list_flatten(column)


def _nested(lengths: NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return the lists of these lengths, null for -1."""
    offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))]).astype(np.int32)
    mask = pa.array(lengths < 0)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _numbers(
    values: pa.Array, rows: "np.ndarray", known: Number | Category, bad: BadRows
) -> pa.Array:
    """Return values as float64; others are null, and their rows bad."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        texts = pc.ascii_trim_whitespace(values.cast(pa.string()))
        numbers = numbers_of(texts, Written())
    else:
        texts = values
        numbers = values.cast(pa.float64(), safe=False)
        numbers = pc.if_else(pc.is_finite(numbers), numbers, None)
    bad.add(
        numbers.is_null(),
        known.name,
        lambda place: f"{texts[place].as_py()!r} is not a number",
        rows=rows,
    )
    return numbers
