"""The files of a table: their headers, and the offsets at which CSV files can be split."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading import kinds
from components.prepare_examples.tables.reading.csv_files import read_header, record_blocks
from components.prepare_examples.tables.reading.typed import json_rows
from trainer.workloads.declarations.names import normal_form

CSV, STREAM, JSON = "csv", "stream", "json"  # a stream can be read from its start only
MISSING_FOLDER = "__HIVE_DEFAULT_PARTITION__"
ONE_OBJECT = (
    "one JSON object: write one for each row, as pandas does with to_json(FILE, orient='records')"
)
STREAM_RATIO = 5  # estimated size of an unpacked CSV file by its gzipped size, for planning only


@dataclass(frozen=True)
class TableFile:
    """A file whose header has been read.

    Attributes:
        kind: CSV, STREAM, JSON or PARQUET.
        names: its columns; the last ones have the values in the names of its folders.
        data_start: the offset of the first record.
        columns: the schema's names of its columns, once they are known.
    """

    path: str
    kind: str
    num_bytes: int
    names: tuple[str, ...]
    data_start: int = 0
    group_rows: tuple[int, ...] = ()
    separator: str = ","
    folder_values: tuple[str | None, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def num_own(self) -> int:
        """The number of columns that the file has itself."""
        return len(self.names) - len(self.folder_values)

    @property
    def weight(self) -> int:
        """The size of the work, in bytes of plain CSV."""
        return self.num_bytes * (STREAM_RATIO if self.kind == STREAM else 1)

    @property
    def has_groups(self) -> bool:
        """True if the file is read by groups of rows, and not by bytes."""
        return self.kind in (kinds.PARQUET, JSON)


@dataclass(frozen=True)
class Cut:
    """An offset between two records, and the number of records before it."""

    offset: int
    num_rows: int


def open_table(path: str, *, header: Sequence[str] = ()) -> TableFile:
    """Read a file's header; `header` has the names of the columns of CSV files without one.

    Raises:
        DataError: the file is empty or not a table, or its header is not UTF-8; names the file.
    """
    if Path(path).stat().st_size == 0:
        raise DataError(f"{path} is empty; a file needs a header")
    file = _open(path, header)
    more = folder_columns(path, file.names)
    names = (*file.names, *more)
    return replace(file, names=names, columns=names, folder_values=tuple(more.values()))


def folder_columns(path: str, names: Iterable[str]) -> dict[str, str | None]:
    """Return the columns of a file's folders, without those that the file has itself.

    Hive, Spark and BigQuery name folders as `year=2025/month=11`.
    """
    pairs = [part.split("=", 1) for part in Path(path).parts[:-1] if "=" in part]
    present = {normal_form(name) for name in names}
    return {
        name: None if value == MISSING_FOLDER else unquote(value)
        for name, value in pairs
        if name and normal_form(name) not in present
    }


def _open(path: str, header: Sequence[str]) -> TableFile:
    kind, num_bytes = kinds.file_kind(path), Path(path).stat().st_size
    if kind == kinds.RECORDS:
        raise DataError(f"{path} holds TFRecords, not a table: give it as records")
    if kind == kinds.PARQUET:
        return _open_parquet(path, num_bytes)
    if kind in (kinds.LINES, kinds.ARRAY, kinds.OBJECT):
        names, num_rows = dict[str, None](), 0
        for num_rows, row in enumerate(json_rows(path), start=1):  # noqa: B007
            names |= dict.fromkeys(row)
        is_object = num_rows == 1 and {*map(type, row.values())} <= {dict, list}
        if is_object and kind == kinds.LINES:
            raise DataError(f"{path} is {ONE_OBJECT}")
        return TableFile(path, JSON, num_bytes, tuple(names), group_rows=(num_rows,))
    is_stream = kinds.is_gzip(path) or not kinds.is_plain(kinds.read_head(path))
    with kinds.open_text(path) as content:
        csv = read_header(content, path, names=header)
    kind = STREAM if is_stream else CSV
    return TableFile(path, kind, num_bytes, csv.names, csv.data_start, separator=csv.separator)


@contextlib.contextmanager
def open_records(path: str, kind: str, start: int) -> Iterator[IO[bytes]]:
    """Open a CSV file at the offset of a record; DataError if it is gzipped and damaged."""
    with kinds.whole_gzip(path), kinds.open_text(path) as file:
        if kind == CSV:
            file.seek(start)
        else:
            file.read(start)
        yield file


def scan(file: TableFile, targets: Iterable[int]) -> list[Cut]:
    """Return the start of a plain CSV file's records, the cuts, and the end.

    There is a cut at or after each target offset; these are in ascending order.
    """
    waiting, cuts = list(targets), [Cut(file.data_start, 0)]
    offset, num_rows = file.data_start, 0
    with open_records(file.path, file.kind, offset) as content:
        for _, ends in record_blocks(content, None, name=file.path):
            starts = offset + np.concatenate([[0], ends])
            while waiting and waiting[0] <= starts[-1]:
                position = int(starts.searchsorted(waiting.pop(0)))
                cuts.append(Cut(int(starts[position]), num_rows + position))
            offset, num_rows = int(starts[-1]), num_rows + len(ends)
    return cuts + [Cut(offset, num_rows)] * (len(waiting) + 1)


def count_rows(file: TableFile, most: int) -> int:
    """Return the number of rows of a CSV file that is read from its start only, at most `most`."""
    num_rows = 0
    with open_records(file.path, file.kind, file.data_start) as content:
        for _, ends in record_blocks(content, None, name=file.path):
            num_rows += len(ends)
            if num_rows >= most:
                return most
    return num_rows


def _open_parquet(path: str, num_bytes: int) -> TableFile:
    try:
        metadata = parquet.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a complete Parquet file: {error}") from error
    names = metadata.schema.to_arrow_schema().names
    groups = (metadata.row_group(index).num_rows for index in range(metadata.num_row_groups))
    return TableFile(path, kinds.PARQUET, num_bytes, tuple(names), group_rows=tuple(groups))
