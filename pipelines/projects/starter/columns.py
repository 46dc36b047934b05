"""The columns of a user's table as texts, with the counts that guesses are made from."""

import functools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.tables.reading.csv_records import record_blocks
from components.prepare_examples.tables.reading.files import (
    JSON,
    TableFile,
    open_records,
    open_table,
)
from components.prepare_examples.tables.reading.header import CONVERT
from components.prepare_examples.tables.reading.kinds import damaged, gzip_errors
from components.prepare_examples.tables.reading.typed import json_batches, parquet_batches
from components.prepare_examples.tables.rows import NUMBER_PATTERN, read_csv_block
from components.prepare_examples.tables.table_schema import (
    CLASSES,
    TEXT,
    Column,
    LabelColumn,
    TableSchema,
)
from pipelines.projects.starter.names import valid_names
from pipelines.projects.starter.typed_columns import TypeFacts, facts_of, texts_of
from trainer import Json
from trainer.workloads.declarations.names import normal_form

MAX_ROWS = 300_000
LARGE_BYTES = 50_000_000
# Texts that mean a missing value wherever they occur, and those that do so among numbers.
MISSING = ("?", "\\N", "#N/A", "N/A", "NULL", "null", "NaN", "nan")
MISSING_NUMBERS = (*MISSING, "NA", "n/a", "None", "none", "-", "--", ".", "unknown")
FEWEST_NUMBERS = 20  # distinct ones, among which another text is a missing value

NUMBER = re.compile(NUMBER_PATTERN)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Texts:
    """A column, as texts.

    Attributes:
        name: its name in the files.
        values: the texts; null where the file has none, or one of `markers`.
        markers: the texts of missing values that were found.
        facts: of the types in a Parquet or JSON file.
        declared: its name in the declaration.
    """

    name: str
    values: pa.Array
    markers: tuple[str, ...] = ()
    facts: TypeFacts = field(default_factory=TypeFacts)
    declared: str = ""

    @property
    def needs_alias(self) -> bool:
        """True if files have another name than the declaration, even in normal form."""
        return self.declared not in (self.name, normal_form(self.name))

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
    """The columns of files, in their order; `lacks` has a file without each that some lack."""

    columns: list[Texts]
    num_rows: int
    is_whole: bool
    markers: tuple[str, ...] = field(default=())
    lacks: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def of(self, name: str) -> Texts:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)


def read_columns(paths: Sequence[str], *, header: Sequence[str] = ()) -> Contents:
    """Return the columns of CSV, JSON or Parquet files; of large ones the first rows.

    Args:
        paths: the files; a column that some of them lack is missing in their rows.
        header: the columns of CSV files without a header.

    Raises:
        DataError: a file is damaged, is no table, or is not UTF-8; or has no header.
    """
    files = [open_table(path, header=header) for path in paths]
    for file in files:
        twice = [name for name in file.names if file.names.count(name) > 1]
        if twice:
            raise DataError(f"{file.path}: the column {twice[0]!r} occurs twice; rename one")
    if sum(file.num_bytes for file in files) > LARGE_BYTES:
        logger.info("reading the first %s rows of %s …", f"{MAX_ROWS:,}", paths[0])
    tables: list[pa.Table] = []
    is_whole = True
    for table in (table for file in files for table in _tables(file)):
        tables.append(table)
        if sum(one.num_rows for one in tables) >= MAX_ROWS:
            is_whole = False
            break
    num_rows = sum(one.num_rows for one in tables)
    if not num_rows:
        raise DataError(f"{paths[0]} has a header but no rows")
    if not header and not files[0].has_groups:
        _check_names(files[0], tables[0])
    names = _common_names(files)
    parts = _by_column(names, tables)
    texts = {name: pa.concat_arrays(map(texts_of, chunks)) for name, chunks in parts.items()}
    found = [
        replace(_column(name, texts[name]), facts=facts_of(parts[name]), declared=declared)
        for name, declared in valid_names(parts).items()
    ]
    markers = tuple(dict.fromkeys(one for column in found for one in column.markers))
    lacks = {
        name: file.path
        for file in files
        for name in parts
        if name not in {names[own] for own in file.names}
    }
    return Contents(found, num_rows, is_whole, markers, lacks)


def _common_names(files: Sequence[TableFile]) -> dict[str, str]:
    """Return the first name of each column, by the names that differ from it in case only."""
    own = dict.fromkeys(name for file in files for name in file.names)
    forms = {normal_form(name): name for name in reversed(own)}
    # Unless a file has both, as `Age` beside `age`.
    is_same = all(len({*map(normal_form, file.names)}) == len(file.names) for file in files)
    return {name: forms[normal_form(name)] if is_same else name for name in own}


def _by_column(names: Mapping[str, str], tables: Sequence[pa.Table]) -> dict[str, list[pa.Array]]:
    """Return the parts of each column, without values where a file lacks it."""
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
    recurs = [pc.any(pc.and_not(one, is_header)).as_py() for one in is_same]
    is_number = [bool(NUMBER.fullmatch(name.strip().encode())) for name in names]
    is_numbered = list(names) == [str(number) for number in range(len(names))]
    seems_row = any(is_number) and sum(recurs) >= len(names) / 2
    if not is_numbered and (all(is_number) or seems_row or all(recurs)):
        raise DataError(
            f"{file.path}: the first line has values, not the names of columns; add a line with the"
            " names, or give them with --header a,b,c"
        )


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
    """Yield the rows of a file in parts, with the columns of its folders."""
    start = len(file.names) - len(file.folder_values)
    more = zip(file.names[start:], file.folder_values, strict=True)
    values = {name: pa.array([value], pa.string()) for name, value in more}
    for table in _own_tables(file, file.names[:start]):
        own = dict(zip(table.column_names, table.columns, strict=True))
        first = pa.array([0] * table.num_rows)
        yield pa.table({**own, **{name: value.take(first) for name, value in values.items()}})


def _own_tables(file: TableFile, names: tuple[str, ...]) -> Iterator[pa.Table]:
    if file.has_groups:
        read = json_batches if file.kind == JSON else parquet_batches
        try:
            yield from (pa.Table.from_batches([batch]) for batch in read(file.path))
        except pa.ArrowException as error:
            raise DataError(f"{file.path} cannot be read: {error}; write it again") from error
        return
    columns = tuple(Column(name=name, kind=TEXT) for name in names)
    label = LabelColumn(name=names[0], kind=CLASSES, is_integer=False)
    schema = TableSchema(workload="new", columns=columns, label=label)
    num_rows = 0
    try:
        with open_records(file.path, file.kind, file.data_start) as content:
            for records in record_blocks(content, None, name=file.path):
                block = read_csv_block(records, names, schema, separator=file.separator)
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
                yield block.table.select(list(names))
    except gzip_errors() as error:
        raise damaged(file.path, error) from error
