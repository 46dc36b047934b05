"""Typed columns of taxi records become clean values; impossible ones are marked, row by row."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from components.prepare_examples.tables.bad_rows import BadRows
from components.prepare_examples.tables.columns import DERIVED, INTS, LIMITS, NEVER_MISSING
from components.prepare_examples.tables.rows import Block
from components.prepare_examples.tables.times import DERIVE, NAME, seconds_of

if TYPE_CHECKING:
    import pyarrow as pa


def clean(block: Block, *, time_zone: str) -> Block:
    """Return the block with its columns' final types; impossible values are marked in `bad`.

    Derived features follow from the start of the trip: what the input has of them is compared, and
    not used.
    """
    import pyarrow as pa

    zones, differing = Counter(block.zones), Counter[str]()
    columns = {}
    for name in block.table.column_names:
        column = block.table[name].combine_chunks()
        if name in DERIVED:
            continue
        if name == NAME:
            column = seconds_of(column, block.bad, zones=zones, time_zone=time_zone)
        if name in LIMITS:
            _check_limits(column, name, block.bad)
        columns[name] = _whole(column, name, block.bad) if name in INTS else column
    for name in NEVER_MISSING:
        _check_present(columns[name], name, block.bad)
    for name, derive in DERIVE.items():
        columns[name] = derive(_possible(columns[NAME], NAME)).cast(pa.int64())
        if name in block.table.column_names:
            differing[name] = _count_differing(block.table[name].combine_chunks(), columns[name])
    return replace(block, table=pa.table(columns), zones=zones, differing=+differing)


def _possible(column: "pa.Array", name: str) -> "pa.Array":
    """Return the column without its impossible values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    limits = LIMITS[name]
    is_possible = pc.and_(
        pc.greater_equal(column, int(limits.low)), pc.less_equal(column, int(limits.high))
    )
    return pc.if_else(is_possible, column, pa.scalar(None, column.type))


def _count_differing(given: "pa.Array", derived: "pa.Array") -> int:
    """Return how many of the given values, a missing one is none, are not the derived ones."""
    import pyarrow.compute as pc

    return pc.sum(pc.not_equal(given, derived)).as_py() or 0


def _check_limits(column: "pa.Array", name: str, bad: BadRows) -> None:
    import numpy as np

    limits = LIMITS[name]
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        is_possible = (values >= limits.low) & (values <= limits.high)
    wrong = np.flatnonzero(present & ~is_possible)
    allowed = f"{limits.low:,} to {limits.high:,} {limits.unit}".strip()
    bad.add(wrong, name, lambda row: f"{values[row]:.15g} is impossible; allowed: {allowed}")


def _whole(column: "pa.Array", name: str, bad: BadRows) -> "pa.Array":
    """Whole numbers as int64; others are marked."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    missing = ~column.is_valid().to_numpy(zero_copy_only=False)
    values = np.nan_to_num(column.to_numpy(zero_copy_only=False).astype(np.float64), posinf=0)
    whole = np.clip(np.trunc(values), -(2.0**62), 2.0**62)
    wrong = np.flatnonzero(~missing & (whole != values))
    bad.add(wrong, name, lambda row: f"{values[row]:.15g} is not a whole number")
    return pa.array(whole.astype(np.int64), mask=missing)


def _check_present(column: "pa.Array", name: str, bad: BadRows) -> None:
    import numpy as np

    missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
    bad.add(missing, name, lambda _: "is missing")
