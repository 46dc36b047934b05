"""Blocks of a table's rows: CSV records are parsed to typed columns, bad rows get a reason."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.reading.encodings import NOT_UTF_8
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.written import (
    NUMBER_PATTERN,
    numbers_of,
    plain_texts,
)
from trainer import Json
from trainer.workloads.declarations.features import Feature
from trainer.workloads.declarations.labels import Label
from trainer.workloads.declarations.written import Written

HEADER = "repeated header"  # the column of a row that repeats the file's first line
REPEATED = "repeated picture"  # of a row that repeats another one with the same picture


@dataclass(frozen=True)
class Raw:
    """Records of a file as they were read.

    Attributes:
        table: the columns that the schema has, without the ragged records.
        numbers: the position of each row of the table among the records, from 0.
        ragged: position, reason and text of each record with too few or too many fields.
        header: of a CSV file, its names of the columns by those of the schema.
        hashes: of each row, if they decide the split.
    """

    table: pa.Table
    numbers: NDArray[np.int64]
    ragged: Sequence[tuple[int, str, str]] = ()
    header: Mapping[str, str] = field(default_factory=dict)
    hashes: pa.Array | None = None

    @property
    def num_rows(self) -> int:
        """The number of records, ragged ones included."""
        return len(self.numbers) + len(self.ragged)

    def part(self, start: int, stop: int) -> "Raw":
        """Return some of the records."""
        first, last = np.searchsorted(self.numbers, (start, stop)).tolist()
        return replace(
            self,
            table=self.table.slice(first, last - first).combine_chunks(),
            numbers=self.numbers[first:last] - start,
            hashes=None if self.hashes is None else self.hashes[first:last],
            ragged=[(n - start, why, text) for n, why, text in self.ragged if start <= n < stop],
        )


@dataclass
class Block:
    """A block of rows with typed columns.

    Attributes:
        table: the rows, without the ragged ones.
        records: the same rows as they were read, and the ragged ones.
        bad: the rows with bad values.
        zones: how many times were converted to wall time, by `COLUMN ZONE` as they named it.
    """

    table: pa.Table
    records: Raw
    bad: BadRows
    zones: Counter[str]

    @property
    def num_rows(self) -> int:
        """The number of records, bad and ragged ones included."""
        return self.records.num_rows

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The position in the block of each row of the table, from 0."""
        return self.records.numbers

    @property
    def is_good(self) -> NDArray[np.bool_]:
        """True for each good row of the table."""
        is_good = np.ones(self.table.num_rows, bool)
        is_good[list(self.bad.reasons)] = False
        return is_good

    def refused(self, first_row: int) -> list[Json]:
        """Return row, column, reason and record of each bad or ragged row, in the input's order.

        Rows that only repeat the header or a picture are left out. `first_row` is the number of the
        block's first row in its file, from 0.
        """
        entries: list[Json] = [
            {"row": first_row + number + 1, "column": "", "reason": reason, "record": text}
            for number, reason, text in self.records.ragged
        ]
        for row, (column, reason) in self.bad.reasons.items():
            if column not in (HEADER, REPEATED):
                number = first_row + int(self.numbers[row]) + 1
                raw = self.records.table.slice(row, 1)
                record = {name: _as_read(raw[name].combine_chunks()) for name in raw.column_names}
                entry = {"row": number, "column": column, "reason": reason, "record": record}
                entries.append(entry)
        return sorted(entries, key=itemgetter("row"))


def read_csv(
    content: bytes,
    columns: Sequence[str],
    schema: TableSchema,
    *,
    separator: str = ",",
    header: Sequence[str] = (),
) -> Raw:
    """Read whole CSV records: numbers if every value has its column's type, else texts."""
    types = _types(schema)
    try:
        table, ragged = parse_csv(content, columns, types, separator, schema.missing)
    except pa.ArrowInvalid:
        texts = dict.fromkeys(types, pa.binary())
        table, ragged = parse_csv(content, columns, texts, separator, schema.missing)
    skipped = [number for number, _, _ in ragged]
    numbers = np.delete(np.arange(len(table) + len(ragged)), skipped)
    return Raw(table, numbers, ragged, dict(zip(columns, header, strict=False)))


def _as_read(column: pa.Array) -> Any:
    """Return the only value of a column; a time as text, because Python has no nanoseconds."""
    if not pa.types.is_timestamp(column.type) or not column[0].is_valid:
        return plain_value(column[0].as_py())
    text = column.view(pa.timestamp(column.type.unit)).cast(pa.string())[0].as_py()
    return f"{text} UTC" if column.type.tz else text


def plain_value(value: Any) -> Any:
    """Return a value in a form that JSON has."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str | None) else str(value)


def _types(schema: TableSchema) -> dict[str, pa.DataType]:
    known = map(schema.column, schema.numbers)
    written = {
        column.name
        for column in known
        if column.missing or (isinstance(column, Written) and not column.is_plain)
    }
    return (
        dict.fromkeys(schema.numbers, pa.float64())
        | dict.fromkeys(schema.texts, pa.string())
        | dict.fromkeys(written, pa.binary())
    )


def is_header(raw: Raw) -> NDArray[np.bool_]:
    """Return whether each row has the name of each column as its value; numbers are no names."""
    header, table = raw.header, raw.table
    if not header or any(pa.types.is_floating(kind) for kind in table.schema.types):
        return np.zeros(table.num_rows, bool)
    is_name = np.ones(table.num_rows, bool)
    for name in header.keys() & {*table.column_names}:
        names = pa.array([header[name], f" {header[name]}"]).cast(table[name].type)
        is_name &= pc.is_in(table[name], names).to_numpy()
        if not is_name.any():
            break
    return is_name


def parse_csv(
    content: bytes,
    columns: Sequence[str],
    types: Mapping[str, pa.DataType],
    separator: str,
    missing: Sequence[str] = (),
) -> tuple[pa.Table, list[tuple[int, str, str]]]:
    """Return the columns of whole CSV records that have types, and the ragged records."""
    ragged: list[tuple[int, str, str]] = []

    def skip(row: Any) -> str:
        reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
        ragged.append((row.number - 1, reason, row.text))
        return "skip"

    wanted = [name for name in columns if name in types]
    table = arrow_csv.read_csv(
        pa.BufferReader(content),
        read_options=arrow_csv.ReadOptions(
            use_threads=False, column_names=list(columns), block_size=max(len(content), 1)
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=skip
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=wanted,
            null_values=["", *missing],
            strings_can_be_null=True,
        ),
    )
    return table, ragged


def parse_column(column: pa.Array, name: str, bad: BadRows, schema: TableSchema) -> pa.Array:
    """Return texts, perhaps binary, or doubles as the type that the schema has for the column."""
    known, markers = schema.column(name), schema.markers(name)
    if name not in schema.numbers:
        return parse_texts(column, known, bad, markers=markers)
    if not pa.types.is_floating(column.type):
        column = parse_numbers(column, known, bad, markers=markers)
    return without_markers(column, markers)


def parse_numbers(
    column: pa.Array, known: Feature | Label, bad: BadRows, *, markers: Sequence[str] = ()
) -> pa.Array:
    """Return texts as float64; texts that are not numbers are null, and their rows bad."""
    decoded = utf8_or_null(column)
    texts = plain_texts(decoded, markers)
    numbers = numbers_of(texts, known if isinstance(known, Written) else Written())
    is_missing = pc.and_(texts.is_null(), pc.or_(decoded.is_valid(), column.is_null()))
    is_wrong = pc.invert(pc.or_(is_missing, numbers.is_valid()))
    bad.add(is_wrong, known.name, lambda row: f"{_shown(column[row].as_py())} is not a number")
    return numbers


def parse_texts(
    column: pa.Array, known: Feature | Label, bad: BadRows, *, markers: Sequence[str] = ()
) -> pa.Array:
    """Return texts without blanks around them and without markers of missing values.

    Binary ones that are not UTF-8 are null, and their rows bad.
    """
    texts = utf8_or_null(column)
    is_wrong = pc.and_(texts.is_null(), column.is_valid())
    bad.add(is_wrong, known.name, lambda row: f"{_shown(column[row].as_py())} {NOT_UTF_8}")
    return plain_texts(texts, markers, is_spelled=known.is_spelled)


def without_markers(numbers: pa.Array, markers: Sequence[str]) -> pa.Array:
    """Return numbers with null for those that are markers of missing values, such as -999."""
    values = [float(text) for text in markers if re.match(NUMBER_PATTERN, text)]
    if not values:
        return numbers
    is_marker = pc.is_in(numbers, pa.array(values))
    return pc.if_else(is_marker, pa.scalar(None, pa.float64()), numbers)


def utf8_or_null(column: pa.Array) -> pa.Array:
    """Return binary texts as texts; null for those that are not UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in column.to_pylist()], pa.string())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _shown(value: bytes | str) -> str:
    text = value if isinstance(value, str) else value[:240].decode(errors="backslashreplace")
    return repr(text[:60])
