"""Record boundaries of CSV files (RFC 4180: a newline in quotes does not end a record)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError

BLOCK_BYTES = 4 << 20
MAX_BLOCK_BYTES = 16 * BLOCK_BYTES
NEWLINE, RETURN, QUOTE = 10, 13, 34


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
        before_end = np.where(newlines > 0, data[newlines - 1], self._last_byte())
        is_blank = (lengths == 0) | ((lengths == 1) & (before_end == RETURN))
        self._carry(chunk, len(chunk) - 1 - int(newlines[-1]))
        ends: NDArray[np.int64] = newlines[~is_blank]
        return ends

    def has_rest(self) -> bool:
        """Return whether the last line, without a newline at its end, holds a record."""
        return self.line_bytes > int(self.ends_in_return)

    def _last_byte(self) -> int:
        return RETURN if self.ends_in_return else 0

    def _carry(self, chunk: bytes, line_bytes: int) -> None:
        self.line_bytes = line_bytes
        if chunk:
            self.ends_in_return = chunk[-1] == RETURN


def count_records(block: bytes) -> int:
    """Return the number of records in a block of whole records."""
    finder = RecordFinder()
    return len(finder.ends(block)) + int(finder.has_rest())


def record_blocks(file: IO[bytes], num_bytes: int | None, *, name: str) -> Iterator[bytes]:
    """Yield blocks of whole records from a file's position on; without `num_bytes` to its end.

    Raises:
        DataError: a quote is never closed, or a record is longer than MAX_BLOCK_BYTES.
    """
    rest, left = b"", num_bytes
    while True:
        wanted = BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)
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
