"""Conversion of Parquet columns, of any type, to the types that CSV files are parsed to."""

import uuid
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.quarantine import BadRows
from components.prepare_examples.tables.rows import (
    NUMBERS,
    TEXTS,
    Block,
    parse_numbers,
    parse_texts,
)
from components.prepare_examples.tables.times import wall_times
from trainer.workloads.taxi_table import DERIVED, TIME

UUID_BYTES = 16
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # in every file that Spark writes
ALLOWED = {
    "number": "numbers, decimals or texts of numbers",
    "text": "texts or numbers",
    "time": "timestamps, dates, Unix seconds or texts",
}


def from_columns(
    batch: pa.RecordBatch, columns: Sequence[str], *, path: str, time_zone: str
) -> Block:
    """Return a block from typed columns; timestamps are converted to wall time.

    Raises:
        DataError: a column has a type that cannot be converted; names it.
    """
    bad, zones = BadRows(), Counter[str]()
    raw = {n: c for n, c in zip(columns, batch.columns, strict=True) if n in NUMBERS | TEXTS}
    plain = {name: _plain(column) for name, column in raw.items()}
    arrays = {}
    for name, column in plain.items():
        kind = _kind(name)
        if kind == "time" and (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
            arrays[name] = wall_times(column, time_zone=time_zone)
            if getattr(column.type, "tz", None):
                zones[column.type.tz] += len(column) - column.null_count
        elif name not in DERIVED or _is_plain(column.type):  # derived ones are recomputed
            arrays[name] = _converted(column, name, kind, bad, path=path)
    numbers = np.arange(batch.num_rows)
    return Block(pa.table(arrays), pa.table(plain), bad, numbers, [], zones=zones)


def with_spark_zone(batch: pa.RecordBatch, file: parquet.ParquetFile) -> pa.RecordBatch:
    """Return the batch with UTC as the zone of Spark's INT96 timestamps.

    INT96 has no zone. Spark, up to 3.5 by default, writes instants in it; Impala and pandas write
    wall time.
    """
    if SPARK_SCHEMA not in (file.metadata.metadata or {}):
        return batch
    leaves = [file.schema.column(index) for index in range(len(file.schema.names))]
    for name in {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}:
        if (place := batch.schema.get_field_index(name)) >= 0:
            column = batch.column(place)
            column = column.view(pa.timestamp(column.type.unit, "UTC"))
            batch = batch.set_column(place, name, column)
    return batch


def _kind(name: str) -> str:
    if name == TIME:
        return "time"
    return "number" if name in NUMBERS else "text"


def _plain(column: pa.Array) -> pa.Array:
    """Return a column decoded from a dictionary, an extension type or UUID bytes."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_fixed_size_binary(column.type) and column.type.byte_width == UUID_BYTES:
        texts = [value and str(uuid.UUID(bytes=value)) for value in column.to_pylist()]
        column = pa.array(texts, pa.string())
    return column


def _converted(column: pa.Array, name: str, kind: str, bad: BadRows, *, path: str) -> pa.Array:
    if _is_text(column.type):
        content = column.cast(pa.binary())
        content = pc.if_else(pc.equal(content, b""), pa.scalar(None, pa.binary()), content)
        return (parse_numbers if kind == "number" else parse_texts)(content, name, bad)
    if _is_plain(column.type):
        return column.cast(pa.string()) if kind == "text" else _numbers(column)
    raise DataError(
        f"{path}: the column {name!r} has the type {column.type}; allowed are {ALLOWED[kind]}"
    )


def _is_text(kind: pa.DataType) -> bool:
    tests = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in (*tests, "fixed_size_binary"))


def _is_plain(kind: pa.DataType) -> bool:
    tests = ("is_integer", "is_floating", "is_decimal", "is_null")
    return _is_text(kind) or any(getattr(pa.types, test)(kind) for test in tests)


def _numbers(column: pa.Array) -> pa.Array:
    """Return a column as float64; NaN is missing, as pandas and fastparquet write it.

    Narrow floats and decimals are converted through their shortest text, as in a CSV file, so 7.85
    becomes the double nearest to 7.85. Arrow's own cast of a decimal gives 7.8500000000000005.
    """
    is_exact = pa.types.is_integer(column.type) or pa.types.is_float64(column.type)
    if not is_exact and not pa.types.is_null(column.type):
        column = column.cast(pa.string())
    numbers = column.cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
