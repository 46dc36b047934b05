"""CSV files: names of columns and separator in the header, and the boundaries of records.

A newline in quotes does not end a record (RFC 4180).
"""

import csv
import io
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading.encodings import NOT_UTF_8, remedy

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SEPARATORS = ",;\t|"
MAX_HEADER_BYTES = 1 << 20
SAMPLE_BYTES = 1 << 15
SAMPLE_ROWS = 50
FEWEST_BY_BLANKS = 3  # fields; one field of text may have two words in each row
BLOCK_BYTES = 4 << 20
MAX_BLOCK_BYTES = 16 * BLOCK_BYTES
COLUMN_BYTES = 8 << 10  # a thousand values of eight characters
NEWLINE, RETURN, QUOTE = 10, 13, 34

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CsvHeader:
    """Names of columns, offset of the first record, and separator of a CSV file."""

    names: tuple[str, ...]
    data_start: int
    separator: str


def read_header(content: IO[bytes], path: str, *, names: Sequence[str] = ()) -> CsvHeader:
    """Return the header of an open file; lines before it with #, // or `sep=` are skipped.

    A file without a header has columns of these names.

    Raises:
        DataError: the header is blank or not UTF-8, or blanks separate its fields.
    """
    start = content.read(MAX_HEADER_BYTES)
    offset = len(BYTE_ORDER_MARK) if start.startswith(BYTE_ORDER_MARK) else 0
    num_skipped = 0
    while _is_remark(start, offset) or (num_skipped and start.startswith((b"\n", b"\r\n"), offset)):
        offset, num_skipped = _line_end(start, offset), num_skipped + 1
    if num_skipped:
        logger.info("%s: skipped %d lines with #, // or sep= at its start", path, num_skipped)
    if names:
        sample = _sample(start, offset)
        separator = _separator(sample, len(names))
        _check_blanks(path, len(names), len(names), sample, separator)
        return CsvHeader(tuple(names), offset, separator)
    end = _record_end(start, offset)
    record = start[offset:end].rstrip(b"\r\n")
    try:
        text = record.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: the header {NOT_UTF_8} ({record[:20]!r}); {remedy(path, 'the header')}"
        ) from error
    sample = _sample(start, end)
    separator = _separator(sample, text)
    fields = _split(text, separator)
    if not any(fields):
        raise DataError(f"{path}: the first line is blank; it must hold the names of the columns")
    _check_blanks(path, len(fields), _num_by_blanks(text), sample, separator)
    names = [name.strip() for name in fields]
    for index in range(len(names)):
        if not names[index] and "" in names[:index]:  # as pandas names it
            names[index] = f"Unnamed: {index}"
    return CsvHeader(tuple(names), end, separator)


def _is_remark(start: bytes, offset: int) -> bool:
    """Return whether a line is Excel's `sep=;`, or begins with # and is no header as #id,name."""
    end = _line_end(start, offset)
    if re.fullmatch(rb'"?sep=.{1,2}"?', start[offset:end].rstrip()):
        return True
    if start.startswith(b"//", offset):
        return True
    if not start.startswith(b"#", offset):
        return False
    line = start[offset:end].decode(errors="replace")
    after = start[end : _line_end(start, end)].decode(errors="replace")
    if line[1:2].isspace() or after.startswith("#"):
        return True
    sizes = {(len(_split(line, sign)), len(_split(after, sign))) for sign in SEPARATORS}
    return not any(size == next_size > 1 for size, next_size in sizes)


def _line_end(start: bytes, offset: int) -> int:
    return start.find(b"\n", offset) + 1 or len(start)


def _record_end(start: bytes, offset: int) -> int:
    """Return the end of the header, in which names in quotes may have several lines."""
    end = _line_end(start, offset)
    if start.count(b'"', offset, end) % 2 == 0:
        return end
    ends = RecordFinder().ends(start[offset:])
    return offset + int(ends[0]) + 1 if len(ends) else end


def _sample(start: bytes, offset: int) -> str:
    """Return the first lines of the records; the last one may be cut off."""
    return start[offset : offset + SAMPLE_BYTES].decode(errors="replace")


def _separator(sample: str, header: str | int) -> str:
    """Return the separator that gives most records as many fields as the header, or so many."""

    def fit(sign: str) -> tuple[float, int]:
        size = header if isinstance(header, int) else len(_split(header, sign))
        lines = csv.reader(io.StringIO(sample, newline=""), delimiter=sign)
        rows = [row for row in islice(lines, SAMPLE_ROWS) if row]
        share = sum(len(row) == size for row in rows) / max(len(rows), 1)
        return (share, size) if size > 1 else (0, 0)

    return max(SEPARATORS, key=fit)


def _check_blanks(path: str, size: int, size_by_blanks: int, sample: str, separator: str) -> None:
    """Raise DataError if records have as many fields as the header only if blanks separate them.

    R writes the names of rows without a name in the header.
    """
    lines = sample.rpartition("\n")[0].splitlines()[:SAMPLE_ROWS]  # the last one may be cut off
    sizes = {*map(_num_by_blanks, lines)}
    if size_by_blanks < FEWEST_BY_BLANKS or sizes not in ({size_by_blanks}, {size_by_blanks + 1}):
        return
    if size == 1 or all(len(_split(line, separator)) != size for line in lines):
        raise DataError(
            f"{path} has blanks between its fields, or is no table; write it with commas, as with"
            " pandas.read_csv(FILE, sep=r'\\s+') and to_csv, or leave it out"
        )


def _num_by_blanks(line: str) -> int:
    return len(_split(re.sub(r"[ \t]+", " ", line.strip()), " "))


def _split(header: str, separator: str) -> list[str]:
    return next(csv.reader(io.StringIO(header, newline=""), delimiter=separator), [])


@dataclass
class RecordFinder:
    """Finder of record ends in the consecutive chunks of a file.

    Blank lines are not records. `line_bytes` is the length so far of an unfinished line.
    """

    is_quoted: bool = False
    line_bytes: int = 0
    ends_in_return: bool = False

    def ends(self, chunk: bytes) -> NDArray[np.int64]:
        """Return the positions in a chunk of the newlines that end a record."""
        data = np.frombuffer(chunk, np.uint8)
        newlines = np.flatnonzero(data == NEWLINE)
        if self.is_quoted or b'"' in chunk:
            quotes = np.flatnonzero(data == QUOTE)
            before = np.searchsorted(quotes, newlines) + int(self.is_quoted)
            newlines = newlines[before % 2 == 0]
            self.is_quoted = (len(quotes) + int(self.is_quoted)) % 2 == 1
        if not len(newlines):
            self._carry(chunk, self.line_bytes + len(chunk))
            return newlines
        lengths = np.diff(newlines, prepend=-1 - self.line_bytes) - 1
        last_byte = RETURN if self.ends_in_return else 0
        before_end = np.where(newlines > 0, data[newlines - 1], last_byte)
        is_blank = (lengths == 0) | ((lengths == 1) & (before_end == RETURN))
        self._carry(chunk, len(chunk) - 1 - int(newlines[-1]))
        ends: NDArray[np.int64] = newlines[~is_blank]
        return ends

    def has_rest(self) -> bool:
        """Return whether the last line, without a newline at its end, holds a record."""
        return self.line_bytes > int(self.ends_in_return)

    def _carry(self, chunk: bytes, line_bytes: int) -> None:
        self.line_bytes = line_bytes
        if chunk:
            self.ends_in_return = chunk[-1] == RETURN


def count_records(block: bytes) -> int:
    """Return the number of records in a block of whole records."""
    finder = RecordFinder()
    return len(finder.ends(block)) + int(finder.has_rest())


def record_blocks(
    file: IO[bytes], num_bytes: int | None, *, name: str, num_columns: int = 0
) -> Iterator[bytes]:
    """Yield blocks of whole records from a file's position on; without `num_bytes` to its end.

    Blocks of many columns are larger, since each column costs time in each block.

    Raises:
        DataError: a quote is never closed, or a record is longer than MAX_BLOCK_BYTES.
    """
    rest, left = b"", num_bytes
    most = max(BLOCK_BYTES, COLUMN_BYTES * num_columns)
    while True:
        wanted = most if left is None else min(most, left)
        chunk = file.read(wanted) if wanted else b""
        if left is not None:
            left -= len(chunk)
        if not chunk:
            break
        block = rest + chunk
        ends = RecordFinder().ends(block)
        cut = int(ends[-1]) + 1 if len(ends) else 0
        rest = block[cut:]
        if len(rest) > MAX_BLOCK_BYTES:
            raise _open_quote(name, rest)
        if cut:
            yield block[:cut]
    if rest.count(b'"') % 2:
        raise _open_quote(name, rest)
    if rest.strip():
        yield rest


def _open_quote(name: str, record: bytes) -> DataError:
    start = record[:80].decode(errors="replace")
    return DataError(f"{name}: a record does not end; close the quote in {start!r}…")
