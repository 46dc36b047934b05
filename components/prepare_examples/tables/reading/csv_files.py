"""CSV files: names of columns and separator in the header, and the boundaries of records.

A newline in quotes does not end a record (RFC 4180).
"""

import csv
import io
import logging
import re
import sys
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
    ends = record_ends(start[offset:])
    return offset + int(ends[0]) if len(ends) else end


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


def record_ends(block: bytes) -> NDArray[np.int64]:
    """Return the positions behind the records of a block, which begins with one.

    Blank lines, and an unfinished last line, are not records.
    """
    data = np.frombuffer(block, np.uint8)
    newlines = np.flatnonzero(data == NEWLINE)
    if b'"' in block:
        quotes = np.flatnonzero(data == QUOTE)
        newlines = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    lengths = np.diff(newlines, prepend=-1) - 1
    is_blank = (lengths == 0) | ((lengths == 1) & (data[newlines - 1] == RETURN))
    ends: NDArray[np.int64] = newlines[~is_blank] + 1
    return ends


def record_blocks(
    file: IO[bytes], num_bytes: int | None, *, name: str, num_columns: int = 0
) -> Iterator[tuple[bytes, NDArray[np.int64]]]:
    """Yield blocks of whole records from a file's position on, with the position behind each.

    They end after `num_bytes`, or with the file. Blocks of many columns are larger, since each
    column costs time in each block.

    Raises:
        DataError: a quote is never closed, or a record is longer than MAX_BLOCK_BYTES.
    """
    rest, left, row = b"", sys.maxsize if num_bytes is None else num_bytes, 1
    most = max(BLOCK_BYTES, COLUMN_BYTES * num_columns)
    while chunk := file.read(min(most, left)):
        left -= len(chunk)
        block = rest + chunk
        ends = record_ends(block)
        cut, row = int(ends[-1]) if len(ends) else 0, row + len(ends)
        rest = block[cut:]
        if len(rest) > MAX_BLOCK_BYTES:
            raise _open_quote(name, row, rest)
        if cut:
            yield block[:cut], ends
    if rest.count(b'"') % 2:
        raise _open_quote(name, row, rest)
    if rest.strip():
        yield rest, np.array([len(rest)])


def _open_quote(name: str, row: int, record: bytes) -> DataError:
    start = record[:80].decode(errors="replace")
    return DataError(f"{name}, row {row}: a record does not end; close the quote in {start!r}…")
