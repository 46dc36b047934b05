"""Progress: downloads have a live bar on a terminal; all else, and elsewhere, plain log lines.

rich is imported inside functions: light steps import this module, and rich takes 0.1 s.
"""

import logging
import sys
import time
from collections.abc import Iterable, Iterator

LINE_SECONDS = 5.0

logger = logging.getLogger(__name__)


class Progress:
    """Log lines with the part of a file that is done, one every LINE_SECONDS."""

    def __init__(self, file: str, what: str, count: int) -> None:
        self._file, self._what, self._count = file, what, count
        self._last = time.monotonic()

    def show(self, done: int) -> None:
        """Log the number of things that are done, if the last line is long ago."""
        if time.monotonic() - self._last > LINE_SECONDS:
            self._last = time.monotonic()
            logger.info("%s: %s of %s %s", self._file, f"{done:,}", f"{self._count:,}", self._what)


def counted(chunks: Iterable[bytes], name: str, num_bytes: int) -> Iterator[bytes]:
    """Yield `chunks`, showing how many of `num_bytes` are done (0: unknown)."""
    follow = _bar if sys.stderr.isatty() else _lines
    return follow(chunks, name, num_bytes)


def _bar(chunks: Iterable[bytes], name: str, num_bytes: int) -> Iterator[bytes]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=num_bytes or None)
        for chunk in chunks:
            bar.advance(task, len(chunk))
            yield chunk


def _lines(chunks: Iterable[bytes], name: str, num_bytes: int) -> Iterator[bytes]:
    logger.info("downloading %s%s", name, f" ({num_bytes / 1e6:.1f} MB)" if num_bytes else "")
    done, last = 0, time.monotonic()
    for chunk in chunks:
        done += len(chunk)
        if time.monotonic() - last > LINE_SECONDS:
            last = time.monotonic()
            logger.info("%s: %.1f of %.1f MB", name, done / 1e6, max(num_bytes, done) / 1e6)
        yield chunk
