"""The columns of a user's table as texts, with the counts that guesses are made from."""

import functools
import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading.csv_files import record_blocks
from components.prepare_examples.tables.reading.encodings import remedy
from components.prepare_examples.tables.reading.files import (
    JSON,
    TableFile,
    open_records,
    open_table,
)
from components.prepare_examples.tables.reading.kinds import damaged, gzip_errors
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.prepare_examples.tables.rows import read_csv_block
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.written import NUMBER_PATTERN
from pipelines.projects.starter.names import valid_names
from pipelines.projects.starter.texts import Texts
from pipelines.projects.starter.typed_columns import facts_of, texts_of
from pipelines.projects.starter.written import read_texts
from trainer.workloads.declarations.features import Category
from trainer.workloads.declarations.labels import Classes
from trainer.workloads.declarations.names import normal_form

MAX_ROWS = 300_000
LARGE_BYTES = 50_000_000
MOST_SHOWN = 60  # characters of a row in an error
NUMBER = re.compile(NUMBER_PATTERN)
DECIMAL_POINT = r"^[-+]?\d*\.(\d{1,2}|\d{4,})$"  # unlike 1.234, which may be 1234
NO_HEADER = (
    "the first line has values, not the names of columns; add a line with the names, or give them"
    " with --header a,b,c"
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rows:
    """Some rows of a file, each with its number in the file, from 1.

    Attributes:
        ragged: number, reason and text of each row with another number of fields.
    """

    file: TableFile
    table: pa.Table
    numbers: pa.Array
    ragged: Sequence[tuple[int, str, str]] = ()


@dataclass(frozen=True)
class Contents:
    """The columns of files, in their order.

    Attributes:
        columns: without the rows that repeat a header.
        num_headers: the number of rows that repeat a header.
        ragged: the rows with another number of fields, in words.
        rows: the number of each row in its file, from 1.
        paths: the file of each row, if there are several.
        lacks: a file without each column that some lack.
    """

    columns: list[Texts]
    num_rows: int
    is_whole: bool
    num_headers: int = 0
    ragged: Sequence[str] = ()
    rows: pa.Array = field(default_factory=lambda: pa.array([]))
    paths: pa.Array | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def row_text(self, index: int) -> str:
        """Return a row in words, as `row 12`, or with its file if there are several."""
        file = "" if self.paths is None else f"{self.paths[index].as_py()}, "
        return f"{file}row {self.rows[index].as_py():,}"

    def of(self, name: str) -> Texts:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


def read_columns(paths: Sequence[str], *, header: Sequence[str] = ()) -> Contents:
    """Return the columns of CSV, JSON or Parquet files; of large ones the first rows.

    A column that some files lack is missing in their rows; `header` names the columns of CSV
    files without one.

    Raises:
        DataError: a file is damaged, is no table, or is not UTF-8; or has no header.
    """
    files = [open_table(path, header=header) for path in paths]
    for file in files:
        twice = [name for name in file.names if file.names.count(name) > 1]
        if not header and any(map(_is_number, twice)):
            raise DataError(f"{file.path}: {NO_HEADER}")
        if twice:
            raise DataError(f"{file.path}: the column {twice[0]!r} occurs twice; rename one")
    if sum(file.num_bytes for file in files) > LARGE_BYTES:
        logger.info("reading the first %s rows of %s …", f"{MAX_ROWS:,}", paths[0])
    blocks = list(_first_rows(files, header))
    num_rows = sum(rows.table.num_rows for rows in blocks)
    if not num_rows:
        raise DataError(f"{paths[0]} has a header but no rows")
    names = _common_names(files)
    parts = _by_column(names, [rows.table for rows in blocks])
    texts = {name: pa.concat_arrays(map(texts_of, chunks)) for name, chunks in parts.items()}
    is_row = pc.invert(_is_header(files[0], texts))
    texts = {name: column.filter(is_row) for name, column in texts.items()}
    read = functools.partial(read_texts, prefers_comma=_prefers_comma(files, texts))
    columns = [
        Texts(name, read(texts[name]), facts_of(parts[name]), declared)
        for name, declared in valid_names(parts).items()
    ]
    if any(column.reading.form and column.reading.form.decimal == "," for column in columns):
        columns = [
            replace(column, reading=read_texts(texts[column.name], is_german=True))
            for column in columns
        ]
    kept = pa.concat_arrays([rows.numbers for rows in blocks]).filter(is_row)
    owners = [pa.array([rows.file.path] * rows.table.num_rows) for rows in blocks]
    lacks = {
        name: file.path
        for file in files
        for name in parts
        if name not in {names[own] for own in file.names}
    }
    return Contents(
        columns,
        len(kept),
        is_whole=num_rows < MAX_ROWS,
        num_headers=num_rows - len(kept),
        ragged=[text for rows in blocks for text in _ragged(rows, has_path=len(files) > 1)],
        rows=kept,
        paths=pa.concat_arrays(owners).filter(is_row) if len(files) > 1 else None,
        lacks=lacks,
    )


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


def _ragged(rows: Rows, *, has_path: bool) -> Iterator[str]:
    path = f"{rows.file.path}, " if has_path else ""
    for number, reason, text in rows.ragged:
        yield f"{path}row {number:,}, {text[:MOST_SHOWN]!r}, with {reason}"


def _prefers_comma(files: Sequence[TableFile], texts: Mapping[str, pa.Array]) -> bool:
    """Return whether a comma is rather decimal: semicolons separate columns, and no point is."""
    if not any(file.separator == ";" for file in files):
        return False
    has_points = (pc.match_substring_regex(column, DECIMAL_POINT) for column in texts.values())
    return not any(pc.any(matches).as_py() for matches in has_points)


def _is_header(file: TableFile, texts: Mapping[str, pa.Array]) -> pa.Array:
    """Return for each row whether it has the name of each column as its value."""
    is_name = pa.array([True] * len(next(iter(texts.values()))))
    for name in file.names[: len(file.names) - len(file.folder_values)]:
        column = texts.get(name, pa.array([None] * len(is_name), pa.string()))
        is_name = pc.and_(is_name, pc.equal(pc.utf8_trim_whitespace(column), name))
        is_name = is_name.fill_null(False)
        if not pc.any(is_name).as_py():
            break
    return is_name


def _common_names(files: Sequence[TableFile]) -> dict[str, str]:
    """Return the first name of each column, by the names that differ from it in case only."""
    own = dict.fromkeys(name for file in files for name in file.names)
    forms = {normal_form(name): name for name in reversed(own)}
    # Unless a file has both, as `Age` beside `age`.
    is_same = all(len({*map(normal_form, file.names)}) == len(file.names) for file in files)
    return {name: forms[normal_form(name)] if is_same else name for name in own}


def _by_column(names: Mapping[str, str], tables: Sequence[pa.Table]) -> dict[str, list[pa.Array]]:
    parts: dict[str, list[pa.Array]] = {name: [] for name in names.values()}
    for table in tables:
        present = {names[name]: table[name].combine_chunks() for name in table.column_names}
        for name, chunks in parts.items():
            chunks.append(present.get(name, pa.nulls(table.num_rows, pa.string())))
    return parts


def _check_names(file: TableFile, rows: pa.Table) -> None:
    """Raise DataError if the first line seems to hold values: they recur in their columns."""
    names = file.names[: len(file.names) - len(file.folder_values)]
    is_same = [pc.equal(rows[name], name).fill_null(False) for name in names]
    is_header = functools.reduce(pc.and_, is_same)  # of files that were joined
    recurs = [pc.any(pc.and_not(repeats, is_header)).as_py() for repeats in is_same]
    is_number = list(map(_is_number, names))
    is_numbered = list(names) == [str(number) for number in range(len(names))]
    seems_row = any(is_number) and sum(recurs) >= len(names) / 2
    if not is_numbered and (all(is_number) or seems_row or all(recurs)):
        raise DataError(f"{file.path}: {NO_HEADER}")


def _is_number(name: str) -> bool:
    return bool(NUMBER.fullmatch(name.strip()))


def _rows(file: TableFile) -> Iterator[Rows]:
    start = len(file.names) - len(file.folder_values)
    more = zip(file.names[start:], file.folder_values, strict=True)
    values = {name: pa.array([value], pa.string()) for name, value in more}
    for rows in _own_rows(file, file.names[:start]):
        table = rows.table
        for name, value in values.items():
            table = table.append_column(name, value.take(pa.array([0] * table.num_rows)))
        yield replace(rows, table=table)


def _own_rows(file: TableFile, names: tuple[str, ...]) -> Iterator[Rows]:
    num_rows = 0
    if file.has_groups:
        read = json_batches if file.kind == JSON else parquet_batches
        try:
            for batch in read(file.path):
                numbers = range(num_rows + 1, num_rows + batch.num_rows + 1)
                yield Rows(file, pa.Table.from_batches([batch]), pa.array(numbers, pa.int64()))
                num_rows += batch.num_rows
        except pa.ArrowException as error:
            raise DataError(f"{file.path} cannot be read: {error}; write it again") from error
        return
    columns = tuple(map(Category, names))
    schema = TableSchema(workload="new", columns=columns, label=Classes(names[0]))
    try:
        with open_records(file.path, file.kind, file.data_start) as content:
            for records in record_blocks(content, None, name=file.path):
                block = read_csv_block(records, names, schema, separator=file.separator)
                if block.bad.reasons:
                    row, (name, reason) = min(block.bad.reasons.items())
                    where = f"row {num_rows + int(block.numbers[row]) + 1:,}"
                    raise DataError(
                        f"{file.path}, {where}: {name}: {reason}; {remedy(file.path, where)}"
                    )
                if len(block.ragged) > block.num_rows / 2:
                    reasons = [reason for _, reason, _ in block.ragged]
                    reason = max(reasons, key=reasons.count)
                    number, _, text = block.ragged[reasons.index(reason)]
                    raise DataError(
                        f"{file.path}: most rows have {reason}, row {num_rows + number + 1} as the"
                        f" first, {text[:MOST_SHOWN]!r}; if it is the header, remove the lines"
                        " above it; if only rows end with a separator, add one to the header; else"
                        " fields are between commas, semicolons, tabs or bars, and the first line"
                        " or --header names all"
                    )
                table = pa.table({name: block.raw[name].cast(pa.string()) for name in names})
                ragged = [(num_rows + at + 1, reason, text) for at, reason, text in block.ragged]
                yield Rows(file, table, pa.array(num_rows + block.numbers + 1), ragged)
                num_rows += block.num_rows
    except gzip_errors() as error:
        raise damaged(file.path, error) from error
