"""Blocks of a table's rows: CSV records are parsed to typed columns, bad rows get a reason."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.table_schema import PART, TableSchema

NUMBER_PATTERN = rb"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@dataclass
class Block:
    """A block of rows with typed columns.

    Attributes:
        table: the rows, without the ragged ones.
        raw: the same rows as they were read.
        bad: the rows with bad values.
        numbers: the position in the block of each row of the table, from 0.
        ragged: position, reason and text of each record with too few or too many fields.
        zones: how many times were converted to wall time, by column and the zone that they named.
        differing: how many values of each derived feature differ from those computed.
    """

    table: pa.Table
    raw: pa.Table
    bad: BadRows
    numbers: NDArray[np.int64]
    ragged: list[tuple[int, str, str]]
    zones: Counter[tuple[str, str]] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)

    @property
    def num_rows(self) -> int:
        """The number of records, bad and ragged ones included."""
        return len(self.numbers) + len(self.ragged)

    def original(self, row: int) -> dict[str, Any]:
        """Return a row as it was read, by column."""
        found = self.raw.slice(row, 1)
        return {name: _as_read(found[name].combine_chunks()) for name in found.column_names}

    def head(self, num_rows: int) -> "Block":
        """Return the block's first records."""
        kept = self.numbers[self.numbers < num_rows]
        reasons = {row: why for row, why in self.bad.reasons.items() if row < len(kept)}
        return replace(
            self,
            table=self.table.slice(0, len(kept)).combine_chunks(),
            raw=self.raw.slice(0, len(kept)),
            bad=BadRows(reasons),
            numbers=kept,
            ragged=[item for item in self.ragged if item[0] < num_rows],
        )


def read_csv_block(
    block: bytes, columns: Sequence[str], schema: TableSchema, *, separator: str = ","
) -> Block:
    """Parse whole CSV records: fast if every value has its column's type, else value by value."""
    bad = BadRows()
    types = _types(schema)
    try:
        raw, ragged = _parse(block, columns, types, schema, separator)
        table = raw
    except pa.ArrowInvalid:
        texts = dict.fromkeys(types, pa.binary())
        raw, ragged = _parse(block, columns, texts, schema, separator)
        table = _repaired(raw, bad, schema)
    skipped = [number for number, _, _ in ragged]
    numbers = np.delete(np.arange(len(table) + len(ragged)), skipped)
    return Block(table=table, raw=raw, bad=bad, numbers=numbers, ragged=ragged)


def raw_columns(
    block: bytes, columns: Sequence[str], schema: TableSchema, *, separator: str = ","
) -> dict[str, pa.Array]:
    """Return all columns of whole CSV records as binary texts, without the ragged records."""
    types = dict.fromkeys(columns, pa.binary())
    table, _ = _parse(block, columns, types, replace(schema, missing=()), separator)
    return {name: table[name].combine_chunks() for name in columns}


def _as_read(column: pa.Array) -> Any:
    """Return the only value of a column; a time as text, because Python has no nanoseconds."""
    if not pa.types.is_timestamp(column.type) or not column[0].is_valid:
        return column[0].as_py()
    text = column.view(pa.timestamp(column.type.unit)).cast(pa.string())[0].as_py()
    return f"{text} UTC" if column.type.tz else text


def _types(schema: TableSchema) -> dict[str, pa.DataType]:
    return {
        **dict.fromkeys(schema.numbers, pa.float64()),
        **dict.fromkeys(schema.texts, pa.string()),
    }


def _parse(
    block: bytes,
    columns: Sequence[str],
    types: dict[str, pa.DataType],
    schema: TableSchema,
    separator: str,
) -> tuple[pa.Table, list[tuple[int, str, str]]]:
    ragged: list[tuple[int, str, str]] = []

    def skip(row: Any) -> str:
        reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
        ragged.append((row.number - 1, reason, row.text))
        return "skip"

    wanted = [name for name in columns if name in types]
    table = arrow_csv.read_csv(
        pa.BufferReader(block),
        read_options=arrow_csv.ReadOptions(
            use_threads=False, column_names=list(columns), block_size=max(len(block), 1)
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=skip
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=wanted,
            null_values=["", *schema.missing],
            strings_can_be_null=True,
        ),
    )
    return table, ragged


def _repaired(raw: pa.Table, bad: BadRows, schema: TableSchema) -> pa.Table:
    """Return the table with its types; values of another type are null, and their rows bad."""
    columns = {
        name: parse_column(raw[name].combine_chunks(), name, bad, schema)
        for name in raw.column_names
    }
    return pa.table(columns)


def parse_column(column: pa.Array, name: str, bad: BadRows, schema: TableSchema) -> pa.Array:
    """Return binary texts as the type that the schema has for the column."""
    if name not in schema.numbers:
        return parse_texts(column, name, bad)
    known = schema.by_name.get(name)
    return parse_numbers(column, name, bad, is_part=known is not None and known.kind == PART)


def parse_numbers(column: pa.Array, name: str, bad: BadRows, *, is_part: bool = False) -> pa.Array:
    """Return binary texts as float64; in parts of times, texts that are not numbers are NaN.

    In other columns they are null, and their rows bad.
    """
    trimmed = pc.cast(pc.ascii_trim_whitespace(utf8_or_null(column)), pa.binary())
    is_number = pc.match_substring_regex(trimmed, NUMBER_PATTERN.decode())
    is_right = pc.or_(column.is_null(), is_number.fill_null(False))
    wrong = np.flatnonzero(~is_right.to_numpy(zero_copy_only=False))
    kept = pc.if_else(is_number, trimmed, pa.scalar(None, pa.binary()))
    numbers = kept.cast(pa.string()).cast(pa.float64())
    if is_part:
        return pc.if_else(is_right, numbers, math.nan)  # differs from every number
    bad.add(wrong, name, lambda row: f"{_shown(column[row].as_py())} is not a number")
    return numbers


def parse_texts(column: pa.Array, name: str, bad: BadRows) -> pa.Array:
    """Return binary texts as texts; those that are not UTF-8 are null, and their rows bad."""
    texts = utf8_or_null(column)
    is_wrong = pc.and_(texts.is_null(), column.is_valid())
    wrong = np.flatnonzero(is_wrong.to_numpy(zero_copy_only=False))
    bad.add(wrong, name, lambda row: f"{_shown(column[row].as_py())} is not UTF-8")
    return texts


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


def _shown(value: bytes) -> str:
    return repr(value[:60].decode(errors="backslashreplace"))
