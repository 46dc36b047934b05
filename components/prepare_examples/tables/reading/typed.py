"""Rows of files with typed columns, Parquet and JSON, as batches of Arrow."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading import kinds
from components.prepare_examples.tables.reading.encodings import NOT_UTF_8, remedy

# Most rows of a batch; fewer of those with long lists, to bound memory.
BATCH_ROWS, BATCH_BYTES, BATCH_VALUES = 32_768, 16 << 20, 1 << 20
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # in every file that Spark writes
NOT_FINITE = {"NaN": None}


def parquet_batches(path: str, groups: Iterable[int] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups of a Parquet file; default: all."""
    # Spark's years 1 to 9999 do not fit in nanoseconds, the default unit for INT96.
    with parquet.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        for batch in file.iter_batches(_num_rows(file.metadata), row_groups=groups):
            assert batch.schema.names == file.schema_arrow.names
            yield _with_spark_zone(batch, file)


def _num_rows(metadata: parquet.FileMetaData) -> int:
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    num_bytes = sum(group.total_byte_size for group in groups)
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES * metadata.num_rows / max(num_bytes, 1))))


def json_batches(path: str) -> Iterator[pa.RecordBatch]:
    """Yield the columns of JSON objects: numbers as they are written, and lists of texts.

    A batch has the columns that occurred so far, in the order of their first rows.
    """
    rows, names = json_rows(path), dict[str, None]()
    first = list(islice(rows, 1))
    values = [value for row in first for value in row.values()]
    num_values = sum(len(value) if isinstance(value, list) else 1 for value in values)
    num_rows = max(1, min(BATCH_ROWS, BATCH_VALUES // max(num_values, 1)))
    rows = chain(first, rows)
    while chunk := list(islice(rows, num_rows)):
        for row in chunk:
            names |= dict.fromkeys(row)
        columns = [_column([row.get(name) for row in chunk]) for name in names]
        yield pa.RecordBatch.from_arrays(columns, names=list(names))


def json_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of JSON lines, or of an array, with the texts of their numbers.

    An object of labels by file becomes rows of `file` and `label`, one of objects by file rows with
    their fields, too.

    Raises:
        DataError: a line is no JSON object, or the array is damaged; names the line.
    """
    with kinds.whole_gzip(path), kinds.open_text(path) as file:
        kind = kinds.file_kind(path)
        if kind == kinds.OBJECT:
            [content] = _parsed(b"[%b]" % file.read(), path, "the object")
            for name, value in content.items():
                yield {"file": name, **(value if isinstance(value, dict) else {"label": value})}
            return
        if kind == kinds.ARRAY:
            yield from _parsed(file.read(), path, "the array")
            return
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield from _parsed(b"[%b]" % text, path, f"line {number}")


def _parsed(text: bytes, path: str, part: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(
            text,
            parse_int=str,
            parse_float=str,
            parse_constant=lambda word: NOT_FINITE.get(word, word),
        )
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, {part} {NOT_UTF_8}; {remedy(path, part)}") from error
    except ValueError as error:
        raise DataError(
            f"{path}, {part} is not JSON: {error}; give an array of objects, or an object per line"
        ) from error
    for row in rows:
        if not isinstance(row, dict):
            raise DataError(f'{path}, {part}: {str(row)[:40]} is no object, such as {{"age": 4}}')
    return list(rows)


def _column(values: list[Any]) -> pa.Array:
    """Return texts; lists of texts if there is a list, and maps of texts if there is an object."""
    if any(isinstance(value, dict) for value in values):
        maps = [
            [(name, _text(item)) for name, item in value.items()]
            if isinstance(value, dict)
            else None
            for value in values
        ]
        return pa.array(maps, pa.map_(pa.string(), pa.string()))
    if any(isinstance(value, list) for value in values):
        lists = [value if isinstance(value, list | None) else [value] for value in values]
        texts = [None if value is None else [_text(item) for item in value] for value in lists]
        return pa.array(texts, pa.list_(pa.string()))
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    return value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)


def _with_spark_zone(batch: pa.RecordBatch, file: parquet.ParquetFile) -> pa.RecordBatch:
    """Return the batch with UTC as the zone of Spark's INT96 timestamps.

    INT96 has no zone. Spark, up to 3.5 by default, writes instants in it; Impala and pandas write
    wall time.
    """
    if SPARK_SCHEMA not in (file.metadata.metadata or {}):
        return batch
    leaves = [file.schema.column(index) for index in range(len(file.schema.names))]
    for name in {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}:
        if (position := batch.schema.get_field_index(name)) >= 0:
            column = batch.column(position)
            column = column.view(pa.timestamp(column.type.unit, "UTC"))
            batch = batch.set_column(position, name, column)
    return batch
