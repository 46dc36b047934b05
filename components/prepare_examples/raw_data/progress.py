"""Progress of long work, in log lines."""

import logging
import time

LINE_SECONDS = 5.0

logger = logging.getLogger(__name__)


class ProgressLines:
    """Log lines with the part of a file that is done, one every LINE_SECONDS."""

    def __init__(self, file: str, what: str, count: int) -> None:
        self._file, self._what, self._count = file, what, count
        self._last = time.monotonic()

    def show(self, done: int) -> None:
        """Log the number of things that are done, if the last line is long ago."""
        if time.monotonic() - self._last > LINE_SECONDS:
            self._last = time.monotonic()
            count = max(self._count, done)
            logger.info("%s: %s of %s %s", self._file, f"{done:,}", f"{count:,}", self._what)
