"""The end of a log, as pages show it."""

import os
from pathlib import Path

TAIL_BYTES = 64 * 1024


def tail(path: Path) -> str:
    """Return the last 64 kB of a log from the start of a line; of a progress bar its last state."""
    if not path.is_file():
        return ""
    with path.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
        is_cut = log.tell() > 0
        text = log.read().decode(errors="replace")
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return "\n".join(["…", *lines[1:]] if is_cut else lines)
