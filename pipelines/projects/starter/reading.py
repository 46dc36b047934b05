"""The columns of a user's table, read from its files."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.reading.encodings import remedy
from components.prepare_examples.tables.reading.files import JSON, TableFile, open_table
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.prepare_examples.tables.rows import HEADER
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.table_schema import TableSchema
from pipelines.projects.starter.column import TableColumn
from pipelines.projects.starter.forms import read_forms
from pipelines.projects.starter.names import valid_names
from pipelines.projects.starter.typed_columns import column_of
from trainer.workloads.declarations.features import Category
from trainer.workloads.declarations.labels import Classes
from trainer.workloads.declarations.names import normal_form
from trainer.workloads.declarations.written import Written

MAX_ROWS = 300_000
LARGE_BYTES = 50_000_000
MOST_SHOWN = 60  # characters of a row in an error
NO_HEADER = (
    "the first line has values, not the names of columns; add a line with the names, or give them"
    " with --header a,b,c"
)
RAGGED = (
    "; if it is the header, remove the lines above it; if only rows end with a separator, add one"
    " to the header; else fields are between commas, semicolons, tabs or bars, and the first line"
    " or --header names all"
)

logger = logging.getLogger(__name__)


@dataclass
class Contents:
    """The columns of files, in their order.

    Attributes:
        columns: without the rows that repeat a header.
        rows: the number of each row in its file, from 0.
        paths: the file of each row.
        ragged: the rows with another number of fields, in words.
        lacks: a file without each column that some lack.
        num_headers: the number of rows that repeat a header.
    """

    columns: list[TableColumn] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    ragged: list[str] = field(default_factory=list)
    lacks: dict[str, str] = field(default_factory=dict)
    num_headers: int = 0
    num_files: int = 1

    @property
    def num_rows(self) -> int:
        """The number of rows that were read."""
        return len(self.rows)

    @property
    def is_whole(self) -> bool:
        """True if these are all rows of the files."""
        return self.num_rows < MAX_ROWS

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def row_text(self, index: int) -> str:
        """Return a row in words, as `row 12`, or with its file if there are several."""
        file = f"{self.paths[index]}, " * (self.num_files > 1)
        return f"{file}row {self.rows[index] + 1:,}"

    def of(self, name: str) -> TableColumn:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


def read_columns(
    paths: Sequence[str], *, header: Sequence[str] = (), told: Mapping[str, str] | None = None
) -> Contents:
    """Return the columns of CSV, JSON or Parquet files; of large ones the first rows.

    A column that some files lack is missing in their rows; `header` names the columns of CSV
    files without one. `told` is of `read_forms`.

    Raises:
        DataError: a file is damaged, is no table, or is not UTF-8; or has no header; or a column
            may be read in several ways.
    """
    files = [open_table(path, header=header) for path in paths]
    for file in files:
        if twice := [name for name in file.names if file.names.count(name) > 1]:
            what = f"the column {twice[0]!r} occurs twice; rename one"
            is_header = header or not _is_number(twice[0])
            raise DataError(f"{file.path}: {what if is_header else NO_HEADER}")
    if sum(file.num_bytes for file in files) > LARGE_BYTES:
        logger.info("reading the first %s rows of %s …", f"{MAX_ROWS:,}", paths[0])
    names = _common_names(files)
    contents = Contents(num_files=len(files))
    for file in files:
        missing = {*names.values()} - {names[name] for name in file.names}
        contents.lacks |= dict.fromkeys(missing, file.path)
    tables = list(_tables(files, contents, has_header=not header))
    if not contents.rows:
        raise DataError(f"{paths[0]} has a header but no rows")
    tables = [table.rename_columns([names[own] for own in table.column_names]) for table in tables]
    for name, declared in valid_names(dict.fromkeys(names.values())).items():
        chunks = [
            table[name].combine_chunks()
            if name in table.column_names
            else pa.nulls(table.num_rows, pa.string())
            for table in tables
        ]
        contents.columns.append(column_of(name, declared, chunks))
    read_forms(contents.columns, told or {}, {file.separator for file in files})
    return contents


def _common_names(files: Sequence[TableFile]) -> dict[str, str]:
    """Return the first name of each column, by the names that differ from it in case only."""
    # Unless a file has both, as `Age` beside `age`.
    is_same = all(len({*map(normal_form, file.names)}) == len(file.names) for file in files)
    first: dict[str, str] = {}
    names = (name for file in files for name in file.names)
    return {name: first.setdefault(normal_form(name) if is_same else name, name) for name in names}


def _tables(
    files: Sequence[TableFile], contents: Contents, *, has_header: bool
) -> Iterator[pa.Table]:
    """Yield the rows of files, of many at least the first `MAX_ROWS`, and count them."""
    for file in files:
        for table in (_typed_tables if file.has_groups else _csv_tables)(file, contents):
            if has_header and not contents.paths and not file.has_groups:
                _check_names(file, table)
            yield table
            contents.paths += [file.path] * table.num_rows
            if contents.num_rows >= MAX_ROWS:
                return


def _check_names(file: TableFile, rows: pa.Table) -> None:
    """Raise DataError if the first line seems to hold values: they recur in their columns."""
    names = file.names[: file.num_own]
    recurs = [pc.index(rows[name], name).as_py() >= 0 for name in names]
    is_number = list(map(_is_number, names))
    is_numbered = list(names) == [str(number) for number in range(len(names))]
    seems_row = any(is_number) and sum(recurs) >= len(names) / 2
    if not is_numbered and (all(is_number) or seems_row or all(recurs)):
        raise DataError(f"{file.path}: {NO_HEADER}")


def _is_number(name: str) -> bool:
    return Written().number_of(name) is not None


def _typed_tables(file: TableFile, contents: Contents) -> Iterator[pa.Table]:
    num_rows = 0
    try:
        for batch in (json_batches if file.kind == JSON else parquet_batches)(file.path):
            table = pa.Table.from_batches([batch])
            for name, value in zip(file.names[file.num_own :], file.folder_values, strict=True):
                table = table.append_column(name, pa.array([value] * len(table), pa.string()))
            contents.rows += range(num_rows, num_rows + len(table))
            num_rows += len(table)
            yield table
    except pa.ArrowException as error:
        raise DataError(f"{file.path} cannot be read: {error}; write it again") from error


def _csv_tables(file: TableFile, contents: Contents) -> Iterator[pa.Table]:
    columns = tuple(map(Category, file.names))
    schema = TableSchema(workload="new", columns=columns, label=Classes(file.names[0]))
    for first, block in blocks(Segment(file, file.data_start, -1), schema):
        for row, (name, reason) in sorted(block.bad.reasons.items()):
            if name != HEADER:
                where = f"row {first + int(block.numbers[row]) + 1:,}"
                what = f"{file.path}, {where}: {name}: {reason}"
                raise DataError(f"{what}; {remedy(file.path, where)}")
        ragged = [
            f"row {first + number + 1:,}, {text[:MOST_SHOWN]!r}, with {reason}"
            for number, reason, text in block.records.ragged
        ]
        if len(ragged) > block.num_rows / 2:
            what = f"{file.path}: most rows have another number of fields"
            raise DataError(f"{what}: {ragged[0]}{RAGGED}")
        contents.num_headers += len(block.bad.reasons)
        contents.ragged += [f"{file.path}, " * (contents.num_files > 1) + text for text in ragged]
        contents.rows += (first + block.numbers[block.is_good]).tolist()
        texts = {name: block.records.table[name].cast(pa.string()) for name in file.names}
        yield pa.table(texts).filter(pa.array(block.is_good))
