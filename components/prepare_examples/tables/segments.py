"""Reading of a segment of a table, in blocks of some ten thousand rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.columns import WHOLE_ROW, hashed_names
from components.prepare_examples.tables.parquet_columns import from_columns
from components.prepare_examples.tables.pictures import Pictures, load_pictures, rows_at_once
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.reading.csv_files import count_records, record_blocks
from components.prepare_examples.tables.reading.files import JSON, open_records
from components.prepare_examples.tables.reading.kinds import PARQUET, damaged, gzip_errors
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.prepare_examples.tables.row_hash import hash_raw_rows
from components.prepare_examples.tables.rows import (
    Block,
    parse_column,
    raw_columns,
    read_csv_block,
)
from components.prepare_examples.tables.table_schema import INT, TableSchema, kind_of
from components.prepare_examples.tables.values.labels import parse_label
from components.prepare_examples.tables.values.times import parse_times, part_of
from components.prepare_examples.tables.values.written import check_limits, parse_list, to_integers
from trainer.workloads.declarations.features import Category, Feature, Number, Timestamp
from trainer.workloads.declarations.written import Limits


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
    row, left = segment.first_row, segment.max_rows
    read = _typed_blocks if segment.file.kind in (PARQUET, JSON) else _csv_blocks
    raw_blocks = read(segment, schema, is_hashed)
    if pictures is not None:
        most = rows_at_once(schema)
        raw_blocks = (
            block.part(start, start + most)
            for block in raw_blocks
            for start in range(0, max(block.num_rows, 1), most)
        )
    while True:
        try:
            block = next(raw_blocks, None)
            if block is None:
                return
            if 0 <= left < block.num_rows:
                block = block.part(0, left)
            cleaned = clean(_completed(block, segment, schema), schema)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{segment.file.path}, from row {row + 1} on, cannot be read: {error}"
            ) from error
        yield row, cleaned if pictures is None else load_pictures(cleaned, schema, pictures)
        row += block.num_rows
        left = max(left - block.num_rows, 0) if left >= 0 else left
        if left == 0:
            return


def _csv_blocks(segment: Segment, schema: TableSchema, is_hashed: bool) -> Iterator[Block]:
    num_bytes = None if segment.stop < 0 else segment.stop - segment.start
    row, separator = segment.first_row, segment.file.separator
    own, names = (
        names[: segment.file.num_own] for names in (segment.file.columns, segment.file.names)
    )
    try:
        with open_records(segment.file.path, segment.file.kind, segment.start) as file:
            contents = record_blocks(file, num_bytes, name=segment.file.path, num_columns=len(own))
            for content in contents:
                block = read_csv_block(*(content, own, schema), separator=separator, header=names)
                counted, parsed = count_records(content), block.num_rows
                if counted != parsed:
                    raise DataError(
                        f"{segment.file.path}, from row {row + 1} on: {counted} records by their"
                        f" newlines, but {parsed} as parsed; check these rows for quotes within"
                        " fields and for carriage returns"
                    )
                row += block.num_rows
                if is_hashed:
                    raw = raw_columns(content, names, schema, separator=separator)
                    block = _with_hashes(block, raw, segment)
                yield block
    except gzip_errors() as error:
        raise damaged(segment.file.path, error) from error


def _typed_blocks(segment: Segment, schema: TableSchema, is_hashed: bool) -> Iterator[Block]:
    if segment.file.kind == JSON:
        batches = json_batches(segment.file.path)
    else:
        batches = parquet_batches(segment.file.path, range(segment.start, segment.stop))
    for batch in batches:
        own = segment.file.columns[: batch.num_columns]
        block = from_columns(batch, own, schema, path=segment.file.path)
        raw = dict(zip(batch.schema.names, batch.columns, strict=True))
        yield _with_hashes(block, raw, segment) if is_hashed else block


def _with_hashes(block: Block, raw: Mapping[str, pa.Array], segment: Segment) -> Block:
    values = {**raw, **_folder_columns(segment.file.names, segment, block)}
    hashes = hash_raw_rows(values, hashed_names(segment.file.names))
    return replace(block, table=block.table.append_column(WHOLE_ROW, hashes))


def _folder_columns(names: Sequence[str], segment: Segment, block: Block) -> dict[str, pa.Array]:
    """Return the columns of a file's folders, which are the last ones, by some names."""
    values = zip(names[segment.file.num_own :], segment.file.folder_values, strict=True)
    return {name: pa.array([value] * block.table.num_rows, pa.binary()) for name, value in values}


def _completed(block: Block, segment: Segment, schema: TableSchema) -> Block:
    """Return a block with the columns of its folders, and, empty, the columns of other files."""
    values = _folder_columns(segment.file.columns, segment, block)
    nothing = pa.nulls(block.table.num_rows, pa.binary())
    table, raw = block.table, block.raw
    for name in sorted((schema.numbers | schema.texts) - set(table.column_names)):
        if name not in segment.file.columns and name not in schema.by_name:
            continue
        texts = values.get(name, nothing)
        table = table.append_column(name, parse_column(texts, name, block.bad, schema))
        raw = raw.append_column(name, texts.cast(pa.string()))
    return replace(block, table=table, raw=raw)


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
        columns[part.name] = part_of(_without_impossible(columns[time.name], time), part.part)
    for name in schema.never_missing:
        block.bad.add(columns[name].is_null(), name, lambda _: "is missing")
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
