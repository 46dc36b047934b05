"""The replica's log on a terminal: one progress line, drawn anew each time; all others stay."""

import logging
import shutil
from typing import TextIO

_CLEAR_LINE = "\r\x1b[K"


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes a record marked `is_passing` in the place of the one before."""

    _is_open = False

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line, over a passing one if that is the last."""
        text = self.format(record)
        is_passing = getattr(record, "is_passing", False)
        if is_passing:
            # A line that wraps could not be cleared.
            text = text[: shutil.get_terminal_size().columns - 1]
        self.stream.write(
            (_CLEAR_LINE if self._is_open else "") + text + ("" if is_passing else "\n")
        )
        self._is_open = is_passing
        self.flush()
