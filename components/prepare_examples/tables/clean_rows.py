"""Cleaning of a block: columns get their final types, and rows with impossible values are bad."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.tables.quarantine import BadRows
from components.prepare_examples.tables.rows import Block
from components.prepare_examples.tables.times import UNITS, parse_times
from trainer.workloads.taxi_table import DERIVED, INTS, LIMITS, NEVER_MISSING, TIME


def clean(block: Block, *, time_zone: str) -> Block:
    """Return the block with its columns' final types; impossible values are added to `bad`.

    Derived features are computed from the time; the input's own values of them are only compared.
    """
    zones, differing = Counter(block.zones), Counter[str]()
    columns = {}
    for name in block.table.column_names:
        column = block.table[name].combine_chunks()
        if name in DERIVED:
            continue
        if name == TIME:
            column = parse_times(column, block.bad, zones=zones, time_zone=time_zone)
        if name in LIMITS:
            _check_limits(column, name, block.bad)
        columns[name] = _to_integers(column, name, block.bad) if name in INTS else column
    for name in NEVER_MISSING:
        _check_present(columns[name], name, block.bad)
    for name, unit in DERIVED.items():
        columns[name] = UNITS[unit](_without_impossible(columns[TIME], TIME)).cast(pa.int64())
        if name in block.table.column_names:
            differing[name] = _count_differing(block.table[name].combine_chunks(), columns[name])
    return replace(block, table=pa.table(columns), zones=zones, differing=+differing)


def _without_impossible(column: pa.Array, name: str) -> pa.Array:
    """Return a column with null for each value outside its limits."""
    limits = LIMITS[name]
    is_possible = pc.and_(pc.greater_equal(column, limits.low), pc.less_equal(column, limits.high))
    return pc.if_else(is_possible, column, pa.scalar(None, column.type))


def _count_differing(given: pa.Array, derived: pa.Array) -> int:
    """Return how many of the given values differ from the derived ones; a missing one does not."""
    return pc.sum(pc.not_equal(given, derived)).as_py() or 0


def _check_limits(column: pa.Array, name: str, bad: BadRows) -> None:
    limits = LIMITS[name]
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        is_possible = (values >= limits.low) & (values <= limits.high)
    wrong = np.flatnonzero(present & ~is_possible)
    allowed = f"{limits.low:,} to {limits.high:,} {limits.unit}".strip()
    bad.add(wrong, name, lambda row: f"{values[row]:.15g} is impossible; allowed: {allowed}")


def _to_integers(column: pa.Array, name: str, bad: BadRows) -> pa.Array:
    """Return a column as int64; rows with fractions are bad."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    missing = ~column.is_valid().to_numpy(zero_copy_only=False)
    values = np.nan_to_num(column.to_numpy(zero_copy_only=False).astype(np.float64), posinf=0)
    whole = np.clip(np.trunc(values), -(2.0**62), 2.0**62)
    wrong = np.flatnonzero(~missing & (whole != values))
    bad.add(wrong, name, lambda row: f"{values[row]:.15g} is not a whole number")
    return pa.array(whole.astype(np.int64), mask=missing)


def _check_present(column: pa.Array, name: str, bad: BadRows) -> None:
    missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
    bad.add(missing, name, lambda _: "is missing")
