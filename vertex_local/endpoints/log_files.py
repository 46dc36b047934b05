"""Files of a request log: JSON lines in numbered segments, of which the oldest are removed."""

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Of one endpoint: 64 MiB and 100,000 requests at most.
MAX_SEGMENTS = 4
MAX_SEGMENT_BYTES = 16 * 1024 * 1024
MAX_SEGMENT_LINES = 25_000
SEGMENT = re.compile(r"([0-9]{8})\.jsonl")


@dataclass(frozen=True, order=True)
class Position:
    """Start of a line: number of the segment, and offset in its file."""

    segment: int
    offset: int


@dataclass
class LogWriter:
    """Writer of one log; a new segment begins when the last one is full."""

    folder: Path
    _file: BinaryIO | None = None
    _segment: int = 0
    _num_bytes: int = 0
    _num_lines: int = 0

    def write(self, lines: list[bytes]) -> None:
        """Append lines, each with its line break.

        Raises:
            OSError: The disk is full, or the endpoint's folder was removed.
        """
        for line in lines:
            if self._file is None:
                self._open_last()
            is_full = self._num_bytes and self._num_bytes + len(line) > MAX_SEGMENT_BYTES
            if is_full or self._num_lines >= MAX_SEGMENT_LINES:
                self._open(self._segment + 1)
                _remove_oldest(self.folder)
            assert self._file is not None
            self._file.write(line)
            self._num_bytes += len(line)
            self._num_lines += 1
        if self._file:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file:
            file, self._file = self._file, None
            file.close()

    def _open_last(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)  # without parents: they may be deleted
        self._open(max(segments(self.folder), default=1))

    def _open(self, segment: int) -> None:
        self.close()
        path = path_of(self.folder, segment)
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(file, "ab")
        content = path.read_bytes()
        self._segment, self._num_bytes = segment, len(content)
        self._num_lines = content.count(b"\n")
        if content and not content.endswith(b"\n"):  # a killed service left half a line
            self._file.write(b"\n")
            self._num_bytes += 1


def segments(folder: Path) -> list[int]:
    """Return the numbers of a log's segments, oldest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for match in map(SEGMENT.fullmatch, names) if match)


def path_of(folder: Path, segment: int) -> Path:
    """Return the file of a segment."""
    return folder / f"{segment:08d}.jsonl"


def size_of(folder: Path) -> int:
    """Return the bytes of all segments."""
    total = 0
    for segment in segments(folder):
        with suppress(FileNotFoundError):  # it was removed meanwhile
            total += path_of(folder, segment).stat().st_size
    return total


def read_back(folder: Path, before: Position | None = None) -> Iterator[tuple[Position, bytes]]:
    """Yield the lines before a position, newest first, each with its own position."""
    for segment in reversed(segments(folder)):
        if before is None or segment < before.segment:
            yield from _lines_back(folder, segment, None)
        elif segment == before.segment:
            yield from _lines_back(folder, segment, before.offset)


def _lines_back(folder: Path, segment: int, offset: int | None) -> Iterator[tuple[Position, bytes]]:
    try:
        file = path_of(folder, segment).open("rb")
    except FileNotFoundError:  # it was removed meanwhile
        return
    with file:
        if not os.fstat(file.fileno()).st_size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            end = content.rfind(b"\n") + 1 if offset is None else min(offset, len(content))
            while end > 0:
                start = content.rfind(b"\n", 0, end - 1) + 1
                yield Position(segment, start), content[start : end - 1]
                end = start


def _remove_oldest(folder: Path) -> None:
    for segment in segments(folder)[:-MAX_SEGMENTS]:
        path_of(folder, segment).unlink(missing_ok=True)
