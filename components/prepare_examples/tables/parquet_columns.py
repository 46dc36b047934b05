"""Conversion of Parquet columns, of any type, to the types that CSV files are parsed to."""

import uuid
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.rows import parse_column, without_markers
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.times import wall_times
from trainer.workloads.declarations.features import UNIX_UNITS, Timestamp

UUID_BYTES = 16
ALLOWED = {
    "number": "numbers, decimals or texts of numbers",
    "text": "texts or numbers",
    "time": "timestamps, dates, Unix seconds or texts",
    "list": "lists, or texts with the values of a list",
}


def decoded(column: pa.Array) -> pa.Array:
    """Return a column decoded from a dictionary, an extension type or UUID bytes."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_fixed_size_binary(column.type) and column.type.byte_width == UUID_BYTES:
        texts = [value and str(uuid.UUID(bytes=value)) for value in column.to_pylist()]
        column = pa.array(texts, pa.string())
    return column


def converted(
    column: pa.Array,
    name: str,
    bad: BadRows,
    schema: TableSchema,
    *,
    zones: Counter[str],
    path: str,
) -> pa.Array:
    """Return a column of a typed file with the type of CSV files; timestamps are wall time.

    Raises:
        DataError: the type cannot be converted; names the column.
    """
    known = schema.by_name.get(name)
    is_time = pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)
    if is_time and isinstance(known, Timestamp):
        if getattr(column.type, "tz", None):
            zones[f"{name} {column.type.tz}"] += len(column) - column.null_count
        return wall_times(column, known)
    is_list = known.is_list if known else schema.label.is_list
    if is_list and is_list_type(column.type):
        return column.cast(pa.list_(column.type.value_type))
    if pa.types.is_boolean(column.type) and name in schema.texts:
        column = column.cast(pa.string())
    if _is_text(column.type):
        return parse_column(column.cast(pa.binary()), name, bad, schema)
    if not is_list and (is_number_type(column.type) or pa.types.is_null(column.type)):
        is_unix = isinstance(known, Timestamp) and known.format in ("", *UNIX_UNITS)
        if name in schema.texts and not is_unix:
            return parse_column(column.cast(pa.string()), name, bad, schema)
        return without_markers(to_doubles(column), schema.markers(name))
    kind = "number" if name in schema.numbers else "text"
    if isinstance(known, Timestamp):
        kind = "time"
    raise DataError(
        f"{path}: the column {name!r} has the type {column.type}; allowed are"
        f" {ALLOWED['list' if is_list else kind]}"
    )


def is_number_type(kind: pa.DataType) -> bool:
    """Return whether a type is of numbers."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_list_type(kind: pa.DataType) -> bool:
    """Return whether a type is of lists, of a fixed length or not."""
    tests = ("is_list", "is_large_list", "is_fixed_size_list")
    return any(getattr(pa.types, test)(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    tests = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in (*tests, "fixed_size_binary"))


def to_doubles(column: pa.Array) -> pa.Array:
    """Return a column as float64; NaN is missing, as pandas and fastparquet write it.

    Narrow floats and decimals are converted through their shortest text, as in a CSV file, so 7.85
    becomes the double nearest to 7.85. Arrow's own cast of a decimal gives 7.8500000000000005.
    """
    is_exact = pa.types.is_integer(column.type) or pa.types.is_float64(column.type)
    if not is_exact and not pa.types.is_null(column.type):
        column = column.cast(pa.string())
    numbers = column.cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
