"""Made-up rows of a table whose files do not fit, to try the model in spite of that."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from components.prepare_examples.output.split_files import open_splits
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.pictures import num_pixels
from components.prepare_examples.tables.table_schema import TEXT, WORDS, TableSchema, kind_of
from trainer import Json
from trainer.workloads.declarations.features import Feature, Image, Number
from trainer.workloads.declarations.labels import Binary, Classes, Multilabel, Regression
from trainer.workloads.declarations.written import Limits

NUM_ROWS = 64


def write_made_up(schema: TableSchema, folder: Path) -> tuple[Json, Json]:
    """Write rows that fit a schema; return their entry for the manifest and their statistics."""
    arrays = {column.name: _values(column) for column in schema.stored}
    arrays[schema.label.name] = _labels(schema)
    examples = pa.table(arrays)
    with contextlib.ExitStack() as stack:
        files = open_splits(
            stack,
            [0],
            folder=folder,
            num_shards=1,
            compression="",
            new_statistics=lambda: columns.new_statistics(schema),
        )["train"]
        files.add(
            {name: examples[name].combine_chunks() for name in schema.names},
            columns.encode(examples, schema),
        )
    [entry] = files.publish("train")
    return entry, {name: statistic.summary() for name, statistic in files.statistics.items()}


def _values(column: Feature) -> pa.Array:
    if isinstance(column, Image):
        pixels = bytes(num_pixels(column))
        return pa.array([pixels] * NUM_ROWS, pa.binary())
    if kind_of(column) in (TEXT, WORDS):
        return _listed(column, lambda row: "ab"[row % 2], pa.string())
    assert isinstance(column, Limits)
    low = 0.0 if column.low is None else column.low
    high = low + 10 if column.high is None else column.high
    if isinstance(column, Number):
        return _listed(column, lambda row: low + (high - low) * row / NUM_ROWS, pa.float64())
    return _listed(column, lambda row: int(low) + row % (int(high - low) + 1), pa.int64())


def _listed(column: Feature, value: Callable[[int], Any], kind: pa.DataType) -> pa.Array:
    if not column.is_list:
        return pa.array(map(value, range(NUM_ROWS)), kind)
    length = getattr(column, "length", 1)
    return pa.array([[value(row)] * length for row in range(NUM_ROWS)], pa.list_(kind))


def _labels(schema: TableSchema) -> pa.Array:
    label, rows = schema.label, range(NUM_ROWS)
    if isinstance(label, Binary):
        return pa.array([row % 2 for row in rows], pa.int64())
    if isinstance(label, Regression):
        low = 0.0 if label.low is None else label.low
        return pa.array([low + row / NUM_ROWS for row in rows], pa.float64())
    assert isinstance(label, Classes | Multilabel)
    values = label.values or ("a", "b")
    chosen = [values[row % len(values)] for row in rows]
    if isinstance(label, Multilabel):
        return pa.array([[str(value)] for value in chosen], pa.list_(pa.string()))
    return pa.array(chosen if schema.has_whole_classes else list(map(str, chosen)))
