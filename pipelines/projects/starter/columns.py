"""The columns of a user's table as texts, with the counts that guesses are made from."""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.tables.reading.csv_records import record_blocks
from components.prepare_examples.tables.reading.files import (
    CONVERT,
    TableFile,
    damaged,
    gzip_errors,
    open_records,
    open_table,
)
from components.prepare_examples.tables.rows import NUMBER_PATTERN, read_csv_block
from components.prepare_examples.tables.table_schema import (
    CLASSES,
    TEXT,
    Column,
    LabelColumn,
    TableSchema,
)
from trainer import Json

MAX_ROWS = 300_000
LARGE_BYTES = 50_000_000
# Texts that mean a missing value wherever they occur, and those that do so among numbers.
MISSING = ("?", "\\N", "#N/A", "N/A", "NULL", "null", "NaN", "nan")
MISSING_NUMBERS = (*MISSING, "NA", "n/a", "None", "none", "-", "--", ".", "unknown")
FEWEST_NUMBERS = 20  # distinct ones, among which another text is a missing value
LIST_SEPARATOR = "|"

NUMBER = re.compile(NUMBER_PATTERN)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Texts:
    """A column, as texts.

    Attributes:
        name: its name in the files.
        values: the texts; null where the file has none, or one of `markers`.
        markers: the texts of missing values that were found.
        kind: `time`, `list` or `bool` if a Parquet file says so, else "".
    """

    name: str
    values: pa.Array
    markers: tuple[str, ...] = ()
    kind: str = ""

    @cached_property
    def present(self) -> pa.Array:
        """The values that are not missing."""
        return self.values.drop_null()

    @cached_property
    def num_unique(self) -> int:
        """The number of distinct values."""
        return len(self.present.unique())

    @cached_property
    def ranked(self) -> list[tuple[str, int]]:
        """The values with their counts, the most frequent first."""
        counted = [
            (one["values"], one["counts"]) for one in self.present.value_counts().to_pylist()
        ]
        return sorted(counted, key=lambda item: (-item[1], item[0]))

    @cached_property
    def numbers(self) -> pa.Array | None:
        """The values as float64; None if one is no number."""
        trimmed = pc.utf8_trim_whitespace(self.present)
        is_number = pc.match_substring_regex(trimmed, NUMBER_PATTERN.decode())
        if not len(trimmed) or not pc.all(is_number).as_py():
            return None
        return trimmed.cast(pa.float64())

    @cached_property
    def summary(self) -> Json:
        """The statistics of a column of numbers, as in statistics.json."""
        statistic = Numbers("FLOAT")
        statistic.add(self.numbers)
        return statistic.summary()

    @cached_property
    def is_whole(self) -> bool:
        """True if all values are whole numbers."""
        numbers = self.numbers
        return numbers is not None and bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())


@dataclass(frozen=True)
class Contents:
    """The columns of files, in their order."""

    columns: list[Texts]
    num_rows: int
    is_whole: bool
    markers: tuple[str, ...] = field(default=())

    def of(self, name: str) -> Texts:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


def read_columns(paths: Sequence[str]) -> Contents:
    """Return the columns of CSV or Parquet files; of large ones the first rows.

    Raises:
        DataError: a file is damaged, is no table, or is not UTF-8; or two have other columns.
    """
    files = [open_table(path) for path in paths]
    for file in files[1:]:
        if file.names != files[0].names:
            raise DataError(
                f"{file.path} has the columns {', '.join(file.names)}, and {files[0].path}"
                f" {', '.join(files[0].names)}; give files with the same columns"
            )
    if all(re.fullmatch(NUMBER_PATTERN, name.strip().encode()) for name in files[0].names):
        raise DataError(
            f"{files[0].path}: the first line has values, not the names of columns; add a line with"
            " the names"
        )
    twice = [name for name in files[0].names if files[0].names.count(name) > 1]
    if twice:
        raise DataError(f"{files[0].path}: the column {twice[0]!r} occurs twice; rename one")
    if sum(file.num_bytes for file in files) > LARGE_BYTES:
        logger.info("reading the first %s rows of %s …", f"{MAX_ROWS:,}", paths[0])
    tables: list[pa.Table] = []
    is_whole = True
    for table in (table for file in files for table in _tables(file)):
        tables.append(table)
        if sum(one.num_rows for one in tables) >= MAX_ROWS:
            is_whole = False
            break
    if not sum(one.num_rows for one in tables):
        raise DataError(f"{paths[0]} has a header but no rows")
    whole = pa.concat_tables(tables)
    found = [_column(name, whole[name].combine_chunks()) for name in whole.column_names]
    markers = tuple(dict.fromkeys(one for column in found for one in column.markers))
    kinds = _parquet_kinds(files[0]) if files[0].kind == "parquet" else {}
    columns = [Texts(c.name, c.values, c.markers, kinds.get(c.name, "")) for c in found]
    return Contents(columns, whole.num_rows, is_whole, markers)


def _column(name: str, values: pa.Array) -> Texts:
    """Return a column without the texts that stand for missing values."""
    counts = {one["values"]: one["counts"] for one in values.drop_null().value_counts().to_pylist()}
    others = [text for text in counts if not NUMBER.fullmatch(text.strip().encode())]
    odd = [text for text in others if text not in MISSING_NUMBERS]
    # One text among many numbers, as `not measured`.
    is_marker = len(odd) == 1 and len(counts) - len(others) >= FEWEST_NUMBERS
    for known in ((*MISSING_NUMBERS, *(odd if is_marker else ())), MISSING):
        markers = tuple(text for text in known if text in counts)
        kept = pc.if_else(pc.is_in(values, pa.array(markers, pa.string())), None, values)
        found = Texts(name, kept, markers)
        if known == MISSING or found.numbers is not None:
            return found
    raise AssertionError("unreachable")


def _tables(file: TableFile) -> Iterator[pa.Table]:
    """Yield the rows of a file in parts, all columns as texts."""
    if file.kind == "parquet":
        with parquet.ParquetFile(file.path) as opened:
            for batch in opened.iter_batches():
                yield pa.table({name: _texts(batch[name]) for name in batch.schema.names})
        return
    columns = tuple(Column(name=name, kind=TEXT) for name in file.names)
    label = LabelColumn(name=file.names[0], kind=CLASSES, is_integer=False)
    schema = TableSchema(workload="new", columns=columns, label=label)
    num_rows = 0
    try:
        with open_records(file.path, file.kind) as content:
            content.seek(file.data_start)
            for records in record_blocks(content, None, name=file.path):
                block = read_csv_block(records, file.names, schema, separator=file.separator)
                if block.bad.reasons:
                    row, (name, reason) = min(block.bad.reasons.items())
                    number = num_rows + int(block.numbers[row]) + 1
                    raise DataError(
                        f"{file.path}, row {number}: {name}: {reason}; {CONVERT.format(file.path)}"
                    )
                if len(block.ragged) > block.num_rows / 2:
                    number, reason, _ = block.ragged[0]
                    raise DataError(
                        f"{file.path}, row {num_rows + number + 1}: {reason}; the first line must"
                        " hold the names of all columns"
                    )
                num_rows += block.num_rows
                yield block.table.select(list(file.names))
    except gzip_errors() as error:
        raise damaged(file.path, error) from error


def _texts(column: pa.Array) -> pa.Array:
    """Return a column of a Parquet file as texts."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        rows = column.to_pylist()
        joined = [None if row is None else LIST_SEPARATOR.join(map(str, row)) for row in rows]
        return pa.array(joined, pa.string())
    if pa.types.is_binary(column.type):
        column = column.cast(pa.string())
    texts = column.cast(pa.string())
    return pc.if_else(pc.is_in(texts, pa.array(["", "nan", "NaN"])), None, texts)


def _parquet_kinds(file: TableFile) -> dict[str, str]:
    schema = parquet.read_schema(Path(file.path))
    tests = {
        "time": pa.types.is_temporal,
        "list": lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind),
        "bool": pa.types.is_boolean,
    }
    return {
        one.name: kind for one in schema for kind, is_kind in tests.items() if is_kind(one.type)
    }
