"""Lists in a table's columns, of the types that examples hold: float64, int64 or texts."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.rows import NUMBER_PATTERN
from components.prepare_examples.tables.table_schema import FLOAT, INT, TEXT, Column
from trainer.workloads.encoding.storage import BRACKETS


def parse_list(column: pa.Array, known: Column, bad: BadRows) -> pa.Array:
    """Return a column of lists, from texts or from Parquet's lists; an empty text is null.

    Args:
        column: texts with the column's separator, or lists.
        known: the column in the schema.
        bad: gets the rows with values of another type, outside the limits, or of another number.
    """
    is_number = known.kind != TEXT
    if not pa.types.is_list(column.type):
        texts = pc.utf8_trim(column, BRACKETS) if is_number else column
        column = pc.split_pattern(texts, pattern=known.separator)
    lengths, rows, values = _flat(column)
    if is_number:
        values = _numbers(values, rows, known, bad)
        _check_limits(values, rows, known, bad)
        if known.length:
            wrong = np.flatnonzero((lengths != known.length) & (lengths >= 0))
            bad.add(
                wrong, known.name, lambda row: f"{lengths[row]} numbers instead of {known.length}"
            )
        if known.kind == INT:
            values = _whole(values, rows, known, bad)
        values = values.fill_null(0)
    else:
        values = pc.utf8_trim_whitespace(values.cast(pa.string())).fill_null("")
        is_missing = pc.is_in(values, pa.array(["", *known.missing], pa.string()))
        kept = ~is_missing.to_numpy(zero_copy_only=False)  # as requests are read
        values, rows = values.filter(pa.array(kept)), rows[kept]
        counts = np.bincount(rows, minlength=len(lengths))
        lengths = np.where(counts == 0, -1, counts)
    return _nested(lengths, values)


def _flat(column: pa.Array) -> tuple["np.ndarray", "np.ndarray", pa.Array]:
    """Return the length of each row's list, the row of each value, and the values.

    The length is -1 for null and for an empty list, which a text cannot tell apart.
    """
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    lengths = np.where(lengths == 0, -1, lengths.astype(np.int64))
    rows = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 0))
    return lengths, rows, pc.list_flatten(column)


def _nested(lengths: "np.ndarray", values: pa.Array) -> pa.Array:
    """Return the lists of these lengths, null for -1."""
    offsets = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))]).astype(np.int32)
    mask = pa.array(lengths < 0)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _numbers(values: pa.Array, rows: "np.ndarray", known: Column, bad: BadRows) -> pa.Array:
    """Return values as float64; others are null, and their rows bad."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        texts = pc.ascii_trim_whitespace(values.cast(pa.string()))
        is_number = pc.match_substring_regex(texts, NUMBER_PATTERN.decode()).fill_null(False)
        found = pc.if_else(is_number, texts, None).cast(pa.float64())
    else:
        texts = values
        found = values.cast(pa.float64(), safe=False)
        found = pc.if_else(pc.is_finite(found), found, None)
    wrong = np.flatnonzero(found.is_null().to_numpy(zero_copy_only=False))
    for place in wrong.tolist():
        shown = texts[place].as_py()
        bad.add(rows[place : place + 1], known.name, lambda _: f"{shown!r} is not a number")  # noqa: B023
    return found


def _check_limits(values: pa.Array, rows: "np.ndarray", known: Column, bad: BadRows) -> None:
    found = values.to_numpy(zero_copy_only=False).astype(np.float64)
    limit = float(np.finfo(np.float32).max) if known.kind == FLOAT else np.inf
    low = -limit if known.low is None else known.low
    high = limit if known.high is None else known.high
    wrong = np.flatnonzero((found < low) | (found > high))  # not NaN, which is bad already
    for place in wrong.tolist():
        allowed = known.allowed if known.has_limits else "numbers of float32"
        reason = f"{found[place]:.15g} is impossible; allowed: {allowed}"
        bad.add(rows[place : place + 1], known.name, lambda _: reason)  # noqa: B023


def _whole(values: pa.Array, rows: "np.ndarray", known: Column, bad: BadRows) -> pa.Array:
    found = np.nan_to_num(values.to_numpy(zero_copy_only=False).astype(np.float64))
    whole = np.clip(np.trunc(found), -(2.0**62), 2.0**62)
    for place in np.flatnonzero(whole != found).tolist():
        reason = f"{found[place]:.15g} is not a whole number"
        bad.add(rows[place : place + 1], known.name, lambda _: reason)  # noqa: B023
    return pa.array(whole.astype(np.int64))
