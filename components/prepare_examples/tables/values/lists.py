"""Lists in a table's columns, of the types that examples hold: float64, int64 or texts."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.values.written import (
    NUMBER_PATTERN,
    check_limits,
    to_integers,
)
from trainer.workloads.declarations.features import Category, Number
from trainer.workloads.encoding.storage import BRACKETS


def parse_list(column: pa.Array, known: Number | Category, bad: BadRows) -> pa.Array:
    """Return a column of lists, from texts or from Parquet's lists; an empty text is null.

    Args:
        column: texts with the column's separator, or lists.
        known: the column in the schema.
        bad: gets the rows with values of another type, outside the limits, or of another number.
    """
    is_number = isinstance(known, Number) or known.is_integer
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
        kept = ~is_missing.to_numpy(zero_copy_only=False)  # as requests are read
        values, rows = values.filter(pa.array(kept)), rows[kept]
        counts = np.bincount(rows, minlength=len(lengths))
        lengths = np.where(counts == 0, -1, counts)
    return _nested(lengths, values)


def _flat(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Return the length of each row's list, the row of each value, and the values.

    The length is -1 for null and for an empty list, which a text cannot tell apart.
    """
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
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
        is_number = pc.match_substring_regex(texts, NUMBER_PATTERN).fill_null(False)
        numbers = pc.if_else(is_number, texts, None).cast(pa.float64())
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
