"""Reading of a segment of a table, in blocks of some ten thousand rows."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.clean_rows import clean
from components.prepare_examples.tables.columns import WHOLE_ROW
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.reading.csv_records import count_records, record_blocks
from components.prepare_examples.tables.reading.files import damaged, gzip_errors, open_records
from components.prepare_examples.tables.reading.parquet_columns import from_columns, with_spark_zone
from components.prepare_examples.tables.row_hash import hash_raw_rows
from components.prepare_examples.tables.rows import Block, raw_columns, read_csv_block
from components.prepare_examples.tables.table_schema import TableSchema

BATCH_ROWS = 32_768


def blocks(
    segment: Segment, schema: TableSchema, *, is_hashed: bool = False
) -> Iterator[tuple[int, Block]]:
    """Yield the segment's blocks, each with the number of rows before it in the file.

    Args:
        segment: the segment to read.
        schema: the columns to read.
        is_hashed: add the column WHOLE_ROW, a hash of each row.

    Raises:
        DataError: the file is damaged, or its newlines do not match its records; names the rows.
    """
    row, left = segment.first_row, segment.max_rows
    read = _parquet_blocks if segment.kind == "parquet" else _csv_blocks
    found = read(segment, schema, is_hashed)
    while True:
        try:
            block = next(found, None)
            if block is None:
                return
            if 0 <= left < block.num_rows:
                block = block.head(left)
            cleaned = clean(block, schema)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{segment.path}, from row {row + 1} on, cannot be read: {error}"
            ) from error
        yield row, cleaned
        row += block.num_rows
        left = max(left - block.num_rows, 0) if left >= 0 else left
        if left == 0:
            return


def _csv_blocks(segment: Segment, schema: TableSchema, is_hashed: bool) -> Iterator[Block]:
    num_bytes = None if segment.stop < 0 else segment.stop - segment.start
    row = segment.first_row
    try:
        with open_records(segment.path, segment.kind) as file:
            file.seek(segment.start)
            for content in record_blocks(file, num_bytes, name=segment.path):
                block = read_csv_block(
                    content, segment.columns, schema, separator=segment.separator
                )
                _check_count(count_records(content), block.num_rows, segment.path, row)
                row += block.num_rows
                if is_hashed:
                    separator = segment.separator
                    raw = raw_columns(content, segment.names, schema, separator=separator)
                    block = _with_hashes(block, raw)
                yield block
    except gzip_errors() as error:
        raise damaged(segment.path, error) from error


def _check_count(counted: int, parsed: int, path: str, row: int) -> None:
    if counted != parsed:
        raise DataError(
            f"{path}, from row {row + 1} on: {counted} records by their newlines, but {parsed} as "
            "parsed; check these rows for quotes within fields and for carriage returns"
        )


def _parquet_blocks(segment: Segment, schema: TableSchema, is_hashed: bool) -> Iterator[Block]:
    # Spark's years 1 to 9999 do not fit in nanoseconds, the default unit for INT96.
    with parquet.ParquetFile(segment.path, coerce_int96_timestamp_unit="us") as file:
        groups = range(segment.start, segment.stop)
        names = file.schema_arrow.names
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups):
            assert batch.schema.names == names
            zoned = with_spark_zone(batch, file)
            block = from_columns(zoned, segment.columns, schema, path=segment.path)
            raw = dict(zip(names, zoned.columns, strict=True)) if is_hashed else {}
            yield _with_hashes(block, raw) if is_hashed else block


def _with_hashes(block: Block, raw: Mapping[str, pa.Array]) -> Block:
    return replace(block, table=block.table.append_column(WHOLE_ROW, hash_raw_rows(raw)))
