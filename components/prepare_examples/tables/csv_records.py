"""Where the records of a CSV file begin and end (RFC 4180: a newline in quotes is no end)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from components.prepare_examples.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_BYTES = 4 << 20
MAX_BLOCK_BYTES = 16 * BLOCK_BYTES
NEWLINE, RETURN, QUOTE = 10, 13, 34


@dataclass
class RecordFinder:
    """Finds the ends of records in the chunks of a file, one after the other.

    Blank lines are no records. `line_bytes` is what the last line had so far, without its newline.
    """

    is_quoted: bool = False
    line_bytes: int = 0
    ends_in_return: bool = False

    def ends(self, chunk: bytes) -> "NDArray[np.int64]":
        """Positions of the newlines that end a record."""
        import numpy as np

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
        """Does the last line, which no newline ended, hold a record?"""
        return self.line_bytes > int(self.ends_in_return)

    def _last_byte(self) -> int:
        return RETURN if self.ends_in_return else 0

    def _carry(self, chunk: bytes, line_bytes: int) -> None:
        self.line_bytes = line_bytes
        if chunk:
            self.ends_in_return = chunk[-1] == RETURN


def count_records(block: bytes) -> int:
    """The number of records in a block of whole ones."""
    finder = RecordFinder()
    return len(finder.ends(block)) + int(finder.has_rest())


def record_blocks(file: IO[bytes], num_bytes: int | None, *, name: str) -> Iterator[bytes]:
    """Blocks of whole records from where an open file stands, `num_bytes` of it (None: the rest).

    Raises:
        DataError: a record is absurdly long, as after a quote that is never closed.
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
            start = rest[:80].decode(errors="replace")
            raise DataError(f"{name}: a record has no end; is a quote not closed in {start!r}…?")
        if cut:
            yield block[:cut]
    if rest.strip():
        yield rest
