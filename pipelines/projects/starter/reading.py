"""The columns of a user's table, read from its files."""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.reading.encodings import remedy
from components.prepare_examples.tables.reading.files import JSON, TableFile, open_table
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.prepare_examples.tables.rows import HEADER
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.written import plain_texts
from pipelines.projects.starter.column import Column
from pipelines.projects.starter.forms import read_forms
from pipelines.projects.starter.names import valid_names
from pipelines.projects.starter.typed_columns import facts_of, texts_of
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


@dataclass(frozen=True)
class Rows:
    """Some rows of a file, each with its number in the file, from 0.

    Attributes:
        ragged: the rows with another number of fields, in words.
        num_headers: the number of rows that repeat the header, which are left out.
    """

    file: TableFile
    table: pa.Table
    numbers: NDArray[np.int64]
    ragged: Sequence[str] = ()
    num_headers: int = 0


@dataclass(frozen=True)
class Contents:
    """The columns of files, in their order.

    Attributes:
        columns: without the rows that repeat a header.
        num_headers: the number of rows that repeat a header.
        ragged: the rows with another number of fields, in words.
        rows: the number of each row in its file, from 0.
        paths: the file of each row.
        lacks: a file without each column that some lack.
    """

    columns: list[Column]
    num_headers: int
    ragged: Sequence[str]
    rows: NDArray[np.int64]
    paths: pa.Array
    lacks: Mapping[str, str]

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
        file = f"{self.paths[index].as_py()}, " if len(self.paths.unique()) > 1 else ""
        return f"{file}row {self.rows[index] + 1:,}"

    def of(self, name: str) -> Column:
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
    read = list(_first_rows(files, header))
    if not any(rows.table.num_rows for rows in read):
        raise DataError(f"{paths[0]} has a header but no rows")
    names = _common_names(files)
    parts: dict[str, list[pa.Array]] = {name: [] for name in names.values()}
    for rows in read:
        own = {names[name]: rows.table[name].combine_chunks() for name in rows.table.column_names}
        for name, chunks in parts.items():
            chunks.append(own.get(name, pa.nulls(rows.table.num_rows, pa.string())))
    columns = [
        _column(name, declared, parts[name]) for name, declared in valid_names(parts).items()
    ]
    read_forms(columns, told or {}, {file.separator for file in files})
    owners = [pa.array([rows.file.path] * rows.table.num_rows, pa.string()) for rows in read]
    return Contents(
        columns,
        num_headers=sum(rows.num_headers for rows in read),
        ragged=[
            f"{rows.file.path}, " * (len(files) > 1) + text for rows in read for text in rows.ragged
        ],
        rows=np.concatenate([rows.numbers for rows in read]),
        paths=pa.concat_arrays(owners),
        lacks={
            name: file.path
            for file in files
            for name in parts
            if name not in {names[own] for own in file.names}
        },
    )


def _column(name: str, declared: str, chunks: Sequence[pa.Array]) -> Column:
    texts = pa.concat_arrays(map(texts_of, chunks))
    has_blanks = pc.any(pc.not_equal(pc.utf8_trim_whitespace(texts), texts)).as_py()
    return Column(name, declared, plain_texts(texts), facts_of(chunks), bool(has_blanks))


def _first_rows(files: Sequence[TableFile], header: Sequence[str]) -> Iterator[Rows]:
    """Yield the rows of files, of many at least the first `MAX_ROWS`."""
    num_rows = 0
    for rows in itertools.chain.from_iterable(map(_rows, files)):
        if not num_rows and not header and not rows.file.has_groups:
            _check_names(rows.file, rows.table)
        yield rows
        num_rows += rows.table.num_rows
        if num_rows >= MAX_ROWS:
            return


def _common_names(files: Sequence[TableFile]) -> dict[str, str]:
    """Return the first name of each column, by the names that differ from it in case only."""
    own = dict.fromkeys(name for file in files for name in file.names)
    forms = {normal_form(name): name for name in reversed(own)}
    # Unless a file has both, as `Age` beside `age`.
    is_same = all(len({*map(normal_form, file.names)}) == len(file.names) for file in files)
    return {name: forms[normal_form(name)] if is_same else name for name in own}


def _check_names(file: TableFile, rows: pa.Table) -> None:
    """Raise DataError if the first line seems to hold values: they recur in their columns."""
    names = file.names[: len(file.names) - len(file.folder_values)]
    recurs = [pc.index(rows[name], name).as_py() >= 0 for name in names]
    is_number = list(map(_is_number, names))
    is_numbered = list(names) == [str(number) for number in range(len(names))]
    seems_row = any(is_number) and sum(recurs) >= len(names) / 2
    if not is_numbered and (all(is_number) or seems_row or all(recurs)):
        raise DataError(f"{file.path}: {NO_HEADER}")


def _is_number(name: str) -> bool:
    return Written().number_of(name) is not None


def _rows(file: TableFile) -> Iterator[Rows]:
    if not file.has_groups:
        yield from _csv_rows(file)
        return
    num_rows, num_own = 0, len(file.names) - len(file.folder_values)
    try:
        for batch in (json_batches if file.kind == JSON else parquet_batches)(file.path):
            table = pa.Table.from_batches([batch])
            for name, value in zip(file.names[num_own:], file.folder_values, strict=True):
                table = table.append_column(name, pa.array([value] * len(table), pa.string()))
            yield Rows(file, table, np.arange(num_rows, num_rows + len(table)))
            num_rows += len(table)
    except pa.ArrowException as error:
        raise DataError(f"{file.path} cannot be read: {error}; write it again") from error


def _csv_rows(file: TableFile) -> Iterator[Rows]:
    columns = tuple(map(Category, file.names))
    schema = TableSchema(workload="new", columns=columns, label=Classes(file.names[0]))
    for first, block in blocks(Segment(file, file.data_start, -1), schema):
        reasons = block.bad.reasons.items()
        for row, (name, reason) in sorted(reasons):
            if name != HEADER:
                where = f"row {first + int(block.numbers[row]) + 1:,}"
                what = f"{file.path}, {where}: {name}: {reason}"
                raise DataError(f"{what}; {remedy(file.path, where)}")
        ragged = [
            f"row {first + number + 1:,}, {text[:MOST_SHOWN]!r}, with {reason}"
            for number, reason, text in block.ragged
        ]
        if len(ragged) > block.num_rows / 2:
            what = f"{file.path}: most rows have another number of fields"
            raise DataError(f"{what}: {ragged[0]}{RAGGED}")
        texts = {name: block.raw[name].cast(pa.string()) for name in file.names}
        table = pa.table(texts).filter(pa.array(block.is_good))
        yield Rows(file, table, first + block.numbers[block.is_good], ragged, len(reasons))
