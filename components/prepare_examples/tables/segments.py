"""Reading of a segment of a table, in blocks of some ten thousand rows."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.columns import WHOLE_ROW, hashed_names
from components.prepare_examples.tables.parquet_columns import converted, decoded
from components.prepare_examples.tables.pictures import Pictures, load_pictures, rows_at_once
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.reading.csv_files import record_blocks
from components.prepare_examples.tables.reading.files import JSON, open_records
from components.prepare_examples.tables.reading.kinds import PARQUET
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.prepare_examples.tables.row_hash import hash_raw_rows
from components.prepare_examples.tables.rows import (
    HEADER,
    Block,
    Raw,
    is_header,
    parse_column,
    parse_csv,
    read_csv,
)
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.labels import parse_label
from components.prepare_examples.tables.values.times import parse_times, part_of
from components.prepare_examples.tables.values.written import check_limits, parse_list, to_integers
from trainer.workloads.declarations.features import Category, Feature, Number, Timestamp
from trainer.workloads.declarations.storage import FLOAT, INT
from trainer.workloads.declarations.written import NumberLimits


def blocks(
    segment: Segment,
    schema: TableSchema,
    *,
    is_hashed: bool = False,
    pictures: Pictures | None = None,
) -> Iterator[tuple[int, Block]]:
    """Yield the segment's blocks, each with the number of rows before it in the file.

    With `is_hashed` they have the column WHOLE_ROW, a hash of each row. With pictures they have
    their columns, and a row whose picture is missing or damaged is bad.

    Raises:
        DataError: the file is damaged, or its newlines do not match its records; names the rows.
    """
    row = segment.first_row
    left = segment.max_rows if segment.max_rows >= 0 else sys.maxsize
    read = _typed_records if segment.file.kind in (PARQUET, JSON) else _csv_records
    records = read(segment, schema, is_hashed)
    if pictures is not None:
        most = rows_at_once(schema)
        records = (
            raw.part(start, start + most)
            for raw in records
            for start in range(0, max(raw.num_rows, 1), most)
        )
    try:
        for whole in records:
            raw = whole.part(0, left) if left < whole.num_rows else whole
            block = _to_block(raw, segment, schema)
            yield row, block if pictures is None else load_pictures(block, schema, pictures)
            row, left = row + raw.num_rows, left - raw.num_rows
            if not left:
                return
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{segment.file.path}, from row {row + 1} on, cannot be read: {error}"
        ) from error


def _csv_records(segment: Segment, schema: TableSchema, is_hashed: bool) -> Iterator[Raw]:
    file, row = segment.file, segment.first_row
    num_bytes = None if segment.stop < 0 else segment.stop - segment.start
    own, names = file.columns[: file.num_own], file.names[: file.num_own]
    with open_records(file.path, file.kind, segment.start) as opened:
        records = record_blocks(opened, num_bytes, name=file.path, num_columns=len(own))
        for content, ends in records:
            raw = read_csv(content, own, schema, separator=file.separator, header=names)
            if raw.num_rows != len(ends):
                raise DataError(
                    f"{file.path}, from row {row + 1} on: {len(ends)} records by their newlines,"
                    f" but {raw.num_rows} as parsed; check these rows for quotes within fields and"
                    " for carriage returns"
                )
            row += raw.num_rows
            if is_hashed:
                texts = dict.fromkeys(names, pa.binary())
                table, _ = parse_csv(content, names, texts, file.separator)
                raw = _with_hashes(raw, table, segment)
            yield raw


def _typed_records(segment: Segment, schema: TableSchema, is_hashed: bool) -> Iterator[Raw]:
    if segment.file.kind == JSON:
        batches = json_batches(segment.file.path)
    else:
        batches = parquet_batches(segment.file.path, range(segment.start, segment.stop))
    wanted = schema.numbers | schema.texts
    for batch in batches:
        own = zip(segment.file.columns[: batch.num_columns], batch.columns, strict=True)
        columns = {name: decoded(column) for name, column in own if name in wanted}
        raw = Raw(pa.table(columns), np.arange(batch.num_rows))
        if is_hashed:
            raw = _with_hashes(raw, pa.Table.from_batches([batch]), segment)
        yield raw


def _with_hashes(raw: Raw, table: pa.Table, segment: Segment) -> Raw:
    names = segment.file.names
    values = {name: table[name].combine_chunks() for name in table.column_names}
    values |= _folder_columns(names, segment, raw)
    return replace(raw, hashes=hash_raw_rows(values, hashed_names(names)))


def _folder_columns(names: Sequence[str], segment: Segment, raw: Raw) -> dict[str, pa.Array]:
    """Return the columns of a file's folders, which are the last ones, by some names."""
    values = zip(names[segment.file.num_own :], segment.file.folder_values, strict=True)
    return {name: pa.array([value] * len(raw.numbers), pa.binary()) for name, value in values}


def _to_block(raw: Raw, segment: Segment, schema: TableSchema) -> Block:
    """Return records with their columns' final types; impossible values make a row bad.

    Columns of folders are added, and, empty, the columns of other files. Parts of times are
    computed from the time.
    """
    bad, zones, file = BadRows(), Counter[str](), segment.file
    bad.add(is_header(raw), HEADER, lambda _: "is the header again")
    texts = _folder_columns(file.columns, segment, raw)
    empty = pa.nulls(len(raw.numbers), pa.binary())
    own = raw.table.column_names
    read = {name: raw.table[name].combine_chunks() for name in own}
    for name in sorted((schema.numbers | schema.texts) - read.keys()):
        if name in file.columns or name in schema.by_name:
            read[name] = texts.get(name, empty)
    columns = {}
    for name, column in read.items():
        if raw.header or name not in own:
            columns[name] = parse_column(column, name, bad, schema)
        else:
            columns[name] = converted(column, name, bad, schema, zones=zones, path=file.path)
    for name, column in columns.items():
        if known := schema.by_name.get(name):
            columns[name] = _cleaned(column, known, bad, zones)
        elif name == schema.label.name:
            columns[name] = parse_label(column, schema, bad)
    for part in schema.parts:
        [time] = [time for time in schema.times if time.name == part.of]
        columns[part.name] = part_of(_without_impossible(columns[time.name], time), part.part)
    for name in schema.never_missing:
        bad.add(columns[name].is_null(), name, lambda _: "is missing")
    if raw.hashes is not None:
        columns[WHOLE_ROW] = raw.hashes
    return Block(pa.table(columns), replace(raw, table=pa.table(read)), bad, zones)


def _cleaned(column: pa.Array, known: Feature, bad: BadRows, zones: Counter[str]) -> pa.Array:
    if isinstance(known, Number | Category) and known.is_list:
        return parse_list(column, known, bad)
    if isinstance(known, Timestamp):
        column = parse_times(column, bad, known, zones=zones)
    if isinstance(known, NumberLimits) and (known.has_limits or known.storage == FLOAT):
        check_limits(column, known.name, known, bad)
    return to_integers(column, known.name, bad) if known.storage == INT else column


def _without_impossible(column: pa.Array, known: Timestamp) -> pa.Array:
    """Return a column with null for each value outside its limits."""
    is_possible = pc.is_valid(column)
    if known.low is not None:
        is_possible = pc.and_(is_possible, pc.greater_equal(column, known.low))
    if known.high is not None:
        is_possible = pc.and_(is_possible, pc.less_equal(column, known.high))
    return pc.if_else(is_possible, column, pa.scalar(None, column.type))
