"""Checks of numbers in a table's columns."""

import numpy as np
import pyarrow as pa

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.table_schema import Column

FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_limits(column: pa.Array, known: Column, bad: BadRows) -> None:
    """Add rows with a value outside the limits, or beyond those of float32, to `bad`."""
    low = -FLOAT32_MAX if known.low is None else known.low
    high = FLOAT32_MAX if known.high is None else known.high
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(invalid="ignore"):
        is_possible = (values >= low) & (values <= high)
    if is_possible.all():
        return
    present = column.is_valid().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(present & ~is_possible)
    allowed = known.allowed if known.has_limits else "numbers of float32"
    bad.add(wrong, known.name, lambda row: f"{values[row]:.15g} is impossible; allowed: {allowed}")


def to_integers(column: pa.Array, name: str, bad: BadRows) -> pa.Array:
    """Return a column as int64; rows with fractions are bad."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    missing = ~column.is_valid().to_numpy(zero_copy_only=False)
    values = np.nan_to_num(column.to_numpy(zero_copy_only=False).astype(np.float64), posinf=0)
    whole = np.clip(np.trunc(values), -(2.0**62), 2.0**62)
    wrong = np.flatnonzero(~missing & (whole != values))
    bad.add(wrong, name, lambda row: f"{values[row]:.15g} is not a whole number")
    return pa.array(whole.astype(np.int64), mask=missing)
