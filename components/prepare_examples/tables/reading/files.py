"""The files of a table: their headers, and the offsets at which CSV files can be split."""

import csv
import gzip
import hashlib
import io
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import sha256_of
from components.prepare_examples.tables.reading.csv_records import (
    BLOCK_BYTES,
    RecordFinder,
    count_records,
    record_blocks,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SEPARATORS = ",;\t|"
MAX_HEADER_BYTES = 1 << 20
GZIP_RATIO = 5  # estimated size of an unpacked CSV file by its gzipped size, for planning only
CONVERT = "convert the file to UTF-8, as with iconv -f WINDOWS-1252 -t UTF-8 {} > NEW"


@dataclass(frozen=True)
class TableFile:
    """A file whose header has been read; `data_start` is the offset of its first record."""

    path: str
    kind: str  # csv, gzip or parquet
    num_bytes: int
    names: tuple[str, ...]
    data_start: int = 0
    group_rows: tuple[int, ...] = ()
    separator: str = ","

    @property
    def weight(self) -> int:
        """The size of the work, in bytes of plain CSV."""
        return self.num_bytes * (GZIP_RATIO if self.kind == "gzip" else 1)


@dataclass(frozen=True)
class Cut:
    """An offset between two records, and the number of records before it."""

    offset: int
    num_rows: int


@dataclass(frozen=True)
class Scan:
    """The result of reading a CSV file once; the last cut is the file's end."""

    sha256: str
    cuts: tuple[Cut, ...]

    def at(self, offset: int) -> Cut:
        """Return the first cut at or after one of the target offsets."""
        offsets = [cut.offset for cut in self.cuts]
        return self.cuts[min(bisect_right(offsets, offset - 1), len(offsets) - 1)]


def open_table(path: str) -> TableFile:
    """Read a file's header.

    Raises:
        DataError: the file is empty or not a table, or its header is not UTF-8; names the file.
    """
    num_bytes = Path(path).stat().st_size
    if num_bytes == 0:
        raise DataError(f"{path} is empty; a file needs a header")
    with Path(path).open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        return _open_parquet(path, num_bytes)
    kind = "gzip" if start[:2] == b"\x1f\x8b" else "csv"
    with open_records(path, kind) as content:
        names, data_start, separator = _read_header(content, path)
    return TableFile(path, kind, num_bytes, tuple(names), data_start, separator=separator)


def open_records(path: str, kind: str) -> IO[bytes]:
    """Open a CSV file, plain or gzipped."""
    return cast(IO[bytes], gzip.open(path, "rb") if kind == "gzip" else Path(path).open("rb"))


def gzip_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions raised by reading a damaged gzip file."""
    return (gzip.BadGzipFile, EOFError, zlib.error)


def scan(file: TableFile, targets: Iterable[int], *, max_rows: int | None = None) -> Scan:
    """Read a plain CSV file once, for its digest and a cut at or after each target offset.

    Args:
        file: the file.
        targets: offsets, in ascending order.
        max_rows: the number of records after which the last cut is made; None for the file's end.
    """
    digest, finder = hashlib.sha256(), RecordFinder()
    waiting = [target for target in targets if target > file.data_start]
    cuts = [Cut(file.data_start, 0)]
    offset, num_rows, end = file.data_start, 0, None
    with Path(file.path).open("rb") as content, ThreadPoolExecutor(1) as beside:
        digested = beside.submit(digest.update, content.read(file.data_start))
        while chunk := content.read(BLOCK_BYTES):
            digested.result()  # or the file would collect in memory
            digested = beside.submit(digest.update, chunk)
            ends = finder.ends(chunk)
            while waiting and len(ends) and waiting[0] <= offset + int(ends[-1]) + 1:
                place = int(ends.searchsorted(waiting[0] - offset - 1))
                cuts.append(Cut(offset + int(ends[place]) + 1, num_rows + place + 1))
                waiting = [target for target in waiting if target > cuts[-1].offset]
            if max_rows is not None and end is None and num_rows + len(ends) >= max_rows:
                end = Cut(offset + int(ends[max_rows - num_rows - 1]) + 1, max_rows)
            num_rows += len(ends)
            offset += len(chunk)
    if finder.is_quoted:
        raise DataError(f"{file.path}, row {num_rows + 1}: a quote is never closed")
    last = end or Cut(offset, num_rows + int(finder.has_rest()))
    kept = [cut for cut in cuts if cut.offset < last.offset]
    return Scan(digest.hexdigest(), (*kept, last))


def count_gzip_rows(file: TableFile, most: int) -> int:
    """Return the number of rows of a gzipped CSV file, at most `most`."""
    num_rows = 0
    try:
        with open_records(file.path, file.kind) as content:
            content.seek(file.data_start)
            for block in record_blocks(content, None, name=file.path):
                num_rows += count_records(block)
                if num_rows >= most:
                    return most
    except gzip_errors() as error:
        raise damaged(file.path, error) from error
    return num_rows


def damaged(path: str, error: Exception) -> DataError:
    """Return the error for a gzip file that is truncated or damaged."""
    return DataError(f"{path} is not a complete gzip file: {error}; download or copy it again")


def digest_of(file: TableFile) -> str:
    """Return the SHA-256 of a file that is not scanned."""
    return sha256_of(Path(file.path))


def _read_header(content: IO[bytes], path: str) -> tuple[list[str], int, str]:
    """Return the names of the columns, the offset of the first record, and the separator.

    The separator is a comma, unless the header has only one column with it.
    """
    try:
        start = content.readline(MAX_HEADER_BYTES)
    except gzip_errors() as error:
        raise damaged(path, error) from error
    skipped = len(BYTE_ORDER_MARK) if start.startswith(BYTE_ORDER_MARK) else 0
    record = start[skipped:].rstrip(b"\r\n")
    try:
        text = record.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: the header is not UTF-8 ({start[:20]!r}); {CONVERT.format(path)}"
        ) from error
    names, separator = _split(text, ","), ","
    if len(names) == 1:
        separator = max(SEPARATORS, key=lambda sign: len(_split(text, sign)))
        names = _split(text, separator)
    if not any(names):
        raise DataError(f"{path}: the first line is blank; it must hold the names of the columns")
    return names, len(start), separator


def _split(header: str, separator: str) -> list[str]:
    return next(csv.reader(io.StringIO(header, newline=""), delimiter=separator), [])


def _open_parquet(path: str, num_bytes: int) -> TableFile:
    try:
        metadata = parquet.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a complete Parquet file: {error}") from error
    names = metadata.schema.to_arrow_schema().names
    groups = (metadata.row_group(index).num_rows for index in range(metadata.num_row_groups))
    return TableFile(path, "parquet", num_bytes, tuple(names), group_rows=tuple(groups))
