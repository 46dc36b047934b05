"""Files that supervisors write and read; the standard library only."""

import json
import os
import time
from pathlib import Path
from typing import Any

NUM_LAST_LINES = 20
LAST_LINES_BYTES = 4000


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Writes a file that is complete whenever somebody reads it."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.write_text(json.dumps(body, indent=1))
    draft.replace(path)


def last_lines(path: Path) -> str:
    """The last lines of a log, within limits; of a progress bar only what it showed last."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4 * LAST_LINES_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n")]
    return "\n".join(lines[-NUM_LAST_LINES:])[-LAST_LINES_BYTES:]


def now() -> str:
    """The present moment: `2026-01-31T12:00:00.123Z`."""
    seconds_now = time.time()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds_now))
    return f"{seconds}.{int(seconds_now % 1 * 1000):03d}Z"
