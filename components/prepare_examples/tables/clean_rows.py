"""Cleaning of a block: columns get their final types, and rows with impossible values are bad."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.rows import Block
from components.prepare_examples.tables.table_schema import INT, TableSchema, kind_of
from components.prepare_examples.tables.values.labels import parse_label
from components.prepare_examples.tables.values.lists import parse_list
from components.prepare_examples.tables.values.numbers import check_limits, to_integers
from components.prepare_examples.tables.values.times import UNITS, parse_times
from trainer.workloads.declarations.features import Category, Feature, Number, Timestamp
from trainer.workloads.declarations.written import Limits


def clean(block: Block, schema: TableSchema) -> Block:
    """Return the block with its columns' final types; impossible values are added to `bad`.

    Parts of times are computed from the time.
    """
    zones, columns = Counter(block.zones), {}
    label = schema.label.name
    for name in block.table.column_names:
        column = block.table[name].combine_chunks()
        known = schema.by_name.get(name)
        if known is not None:
            column = _cleaned(column, known, block.bad, zones)
        elif name == label:
            column = parse_label(column, schema, block.bad)
        columns[name] = column
    for part in schema.parts:
        [time] = [time for time in schema.times if time.name == part.of]
        numbers = UNITS[part.part](_without_impossible(columns[time.name], time))
        columns[part.name] = numbers.cast(pa.int64())
    for name in schema.never_missing:
        _check_present(columns[name], name, block.bad)
    return replace(block, table=pa.table(columns), zones=zones)


def _cleaned(column: pa.Array, known: Feature, bad: BadRows, zones: Counter[str]) -> pa.Array:
    if isinstance(known, Number | Category) and known.is_list:
        return parse_list(column, known, bad)
    if isinstance(known, Timestamp):
        column = parse_times(column, bad, known, zones=zones)
    if isinstance(known, Number) or (isinstance(known, Limits) and known.has_limits):
        check_limits(column, known.name, known, bad)
    return to_integers(column, known.name, bad) if kind_of(known) == INT else column


def _without_impossible(column: pa.Array, known: Timestamp) -> pa.Array:
    """Return a column with null for each value outside its limits."""
    is_possible = pc.is_valid(column)
    if known.low is not None:
        is_possible = pc.and_(is_possible, pc.greater_equal(column, known.low))
    if known.high is not None:
        is_possible = pc.and_(is_possible, pc.less_equal(column, known.high))
    return pc.if_else(is_possible, column, pa.scalar(None, column.type))


def _check_present(column: pa.Array, name: str, bad: BadRows) -> None:
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        bad.add(missing, name, lambda _: "is missing")
