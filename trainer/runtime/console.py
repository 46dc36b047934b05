"""The replica's log on a terminal, where the progress line is redrawn in place."""

import logging
import shutil
from typing import TextIO

_CLEAR_LINE = "\r\x1b[K"


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Handler in which the next record replaces a record marked `is_transient`."""

    _is_open = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, in the place of the last one if that was transient."""
        text = self.format(record)
        is_transient = getattr(record, "is_transient", False)
        if is_transient:
            # A wrapped line could not be cleared.
            text = text[: shutil.get_terminal_size().columns - 1]
        self.stream.write(
            (_CLEAR_LINE if self._is_open else "") + text + ("" if is_transient else "\n")
        )
        self._is_open = is_transient
        self.flush()
