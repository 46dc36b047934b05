"""Blocks of taxi records become columns of clean values; bad rows are set aside with a reason."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from components.prepare_examples.bad_rows import BadRows
from components.prepare_examples.errors import DataError
from components.prepare_examples.taxi_columns import (
    FLOATS,
    INTS,
    KEYS,
    LIMITS,
    NEVER_MISSING,
    STRINGS,
)
from components.prepare_examples.taxi_times import seconds_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

NUMBERS = {*FLOATS, *INTS, "tips"} - {"trip_start_timestamp"}
TEXTS = {*STRINGS, *KEYS, "trip_start_timestamp"}
NUMBER_PATTERN = rb"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@dataclass
class Block:
    """A block of rows: typed columns, the rows that are bad, and those that were no rows at all.

    Ragged rows (with too few or too many fields) are not in `table`; `numbers` says for each row of
    the table which record of the block it is, starting with 0. `raw` is the table as it was read.
    """

    table: "pa.Table"
    raw: "pa.Table"
    bad: BadRows
    numbers: "NDArray[np.int64]"
    ragged: list[tuple[int, str, str]]

    @property
    def num_rows(self) -> int:
        """All records, the bad and the ragged ones too."""
        return len(self.numbers) + len(self.ragged)

    def original(self, row: int) -> dict[str, Any]:
        """A row as it was read, by column."""
        values: dict[str, Any] = self.raw.slice(row, 1).to_pylist()[0]
        return values

    def head(self, num_rows: int) -> "Block":
        """The first records."""
        kept = self.numbers[self.numbers < num_rows]
        reasons = {row: why for row, why in self.bad.reasons.items() if row < len(kept)}
        return Block(
            table=self.table.slice(0, len(kept)).combine_chunks(),
            raw=self.raw.slice(0, len(kept)),
            bad=BadRows(reasons),
            numbers=kept,
            ragged=[item for item in self.ragged if item[0] < num_rows],
        )


def read_csv_block(block: bytes, columns: Sequence[str]) -> Block:
    """Parses whole CSV records: fast if every value has its type, else value by value."""
    import numpy as np
    import pyarrow as pa

    bad = BadRows()
    try:
        raw, ragged = _parse(block, columns, _types())
        table = raw
    except pa.ArrowInvalid:
        raw, ragged = _parse(block, columns, dict.fromkeys(_types(), pa.binary()))
        table = _repaired(raw, bad)
    skipped = [number for number, _, _ in ragged]
    numbers = np.delete(np.arange(len(table) + len(ragged)), skipped)
    return Block(table=table, raw=raw, bad=bad, numbers=numbers, ragged=ragged)


def from_columns(batch: "pa.RecordBatch", columns: Sequence[str], *, path: str) -> Block:
    """A block of columns that have types already, as Parquet's.

    Raises:
        DataError: a column has a type that cannot be converted; names it.
    """
    import numpy as np
    import pyarrow as pa

    arrays = {}
    for name, column in zip(columns, batch.columns, strict=True):
        if name not in NUMBERS and name not in TEXTS:
            continue
        try:
            arrays[name] = _converted(column, name)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{path}: the column {name!r} has the type {column.type}: {error}"
            ) from error
    table = pa.table(arrays)
    return Block(table, table, BadRows(), np.arange(table.num_rows), [])


def _converted(column: "pa.Array", name: str) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    if name in NUMBERS:
        return column.cast(pa.float64())
    if name == "trip_start_timestamp" and not pa.types.is_large_string(column.type):
        return column
    texts = column.cast(pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)  # as in CSV


def clean(block: Block) -> Block:
    """The block with its columns' final types; impossible values are marked in `bad`."""
    import pyarrow as pa

    columns = {}
    for name in block.table.column_names:
        column = block.table[name].combine_chunks()
        if name == "trip_start_timestamp":
            column = seconds_of(column, block.bad)
        if name in LIMITS:
            _check_limits(column, name, block.bad)
        columns[name] = _whole(column, name, block.bad) if name in INTS else column
    for name in NEVER_MISSING:
        _check_present(columns[name], name, block.bad)
    return replace(block, table=pa.table(columns))


def _types() -> "dict[str, pa.DataType]":
    import pyarrow as pa

    return {**dict.fromkeys(NUMBERS, pa.float64()), **dict.fromkeys(TEXTS, pa.string())}


def _parse(
    block: bytes, columns: Sequence[str], types: "dict[str, pa.DataType]"
) -> "tuple[pa.Table, list[tuple[int, str, str]]]":
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

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
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    return table, ragged


def _repaired(raw: "pa.Table", bad: BadRows) -> "pa.Table":
    """The table with its types; values that do not have them are null, and their rows marked."""
    import pyarrow as pa

    columns = {
        name: (_numbers if name in NUMBERS else _texts)(raw[name].combine_chunks(), name, bad)
        for name in raw.column_names
    }
    return pa.table(columns)


def _numbers(column: "pa.Array", name: str, bad: BadRows) -> "pa.Array":
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.cast(pc.ascii_trim_whitespace(_utf8_or_null(column)), pa.binary())
    is_number = pc.match_substring_regex(trimmed, NUMBER_PATTERN.decode())
    is_right = pc.or_(column.is_null(), is_number.fill_null(False))
    wrong = np.flatnonzero(~is_right.to_numpy(zero_copy_only=False))
    bad.add(wrong, name, lambda row: f"{_shown(column[row].as_py())} is not a number")
    kept = pc.if_else(is_number, trimmed, pa.scalar(None, pa.binary()))
    return kept.cast(pa.string()).cast(pa.float64())


def _texts(column: "pa.Array", name: str, bad: BadRows) -> "pa.Array":
    import numpy as np
    import pyarrow.compute as pc

    texts = _utf8_or_null(column)
    lost = pc.and_(texts.is_null(), column.is_valid())
    wrong = np.flatnonzero(lost.to_numpy(zero_copy_only=False))
    bad.add(wrong, name, lambda row: f"{_shown(column[row].as_py())} is not UTF-8")
    return texts


def _utf8_or_null(column: "pa.Array") -> "pa.Array":
    import pyarrow as pa

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


def _check_limits(column: "pa.Array", name: str, bad: BadRows) -> None:
    import numpy as np

    limits = LIMITS[name]
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        is_possible = (values >= limits.low) & (values <= limits.high)
    wrong = np.flatnonzero(present & ~is_possible)
    allowed = f"{limits.low:,} to {limits.high:,} {limits.unit}".strip()
    bad.add(wrong, name, lambda row: f"{values[row]:.15g} is impossible; allowed: {allowed}")


def _whole(column: "pa.Array", name: str, bad: BadRows) -> "pa.Array":
    """Whole numbers as int64; others are marked."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    missing = ~column.is_valid().to_numpy(zero_copy_only=False)
    values = np.nan_to_num(column.to_numpy(zero_copy_only=False).astype(np.float64), posinf=0)
    whole = np.clip(np.trunc(values), -(2.0**62), 2.0**62)
    wrong = np.flatnonzero(~missing & (whole != values))
    bad.add(wrong, name, lambda row: f"{values[row]:.15g} is not a whole number")
    return pa.array(whole.astype(np.int64), mask=missing)


def _check_present(column: "pa.Array", name: str, bad: BadRows) -> None:
    import numpy as np

    missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
    bad.add(missing, name, lambda _: "is missing")


def header_names(record: bytes) -> list[str]:
    """The fields of a file's first record."""
    return next(csv.reader(io.StringIO(record.decode(), newline="")), [])
