"""Checks of numbers in a table's columns."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.prepare_examples.output.quarantine import BadRows
from trainer.workloads.declarations.written import Limits

FLOAT32_MAX = float(np.finfo(np.float32).max)
Rows = NDArray[np.int64]


def check_limits(
    column: pa.Array, name: str, limits: Limits, bad: BadRows, *, rows: Rows | None = None
) -> None:
    """Add rows with a value outside the limits, or outside float32, to `bad`.

    `rows` has the row of each value of lists.
    """
    low = -FLOAT32_MAX if limits.low is None else limits.low
    high = FLOAT32_MAX if limits.high is None else limits.high
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(invalid="ignore"):
        is_possible = (values >= low) & (values <= high)
    if is_possible.all():
        return
    allowed = limits.allowed if limits.has_limits else "numbers of float32"
    present = column.is_valid().to_numpy(zero_copy_only=False)
    for position in np.flatnonzero(present & ~is_possible).tolist():
        row = position if rows is None else int(rows[position])
        bad.put(row, name, f"{values[position]:.15g} is impossible; allowed: {allowed}")


def to_integers(column: pa.Array, name: str, bad: BadRows, *, rows: Rows | None = None) -> pa.Array:
    """Return a column as int64; rows with fractions are bad."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    missing = ~column.is_valid().to_numpy(zero_copy_only=False)
    values = np.nan_to_num(column.to_numpy(zero_copy_only=False).astype(np.float64), posinf=0)
    whole = np.clip(np.trunc(values), -(2.0**62), 2.0**62)
    for position in np.flatnonzero(~missing & (whole != values)).tolist():
        row = position if rows is None else int(rows[position])
        bad.put(row, name, f"{values[position]:.15g} is not a whole number")
    return pa.array(whole.astype(np.int64), mask=missing)
