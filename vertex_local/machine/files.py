"""Files that supervisors write and read; the standard library only."""

import json
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

TEMP_LINK = "tmp"
NUM_LAST_LINES = 20
LAST_LINES_BYTES = 4000


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Writes a file that is complete whenever somebody reads it."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.write_text(json.dumps(body, indent=1))
    draft.replace(path)


def make_private(folder: Path) -> None:
    """Makes a folder that its owner alone may enter, or one that is there such a folder.

    Raises:
        OSError: it is for all users to write into, as /tmp is, or cannot be changed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    if mode & stat.S_ISVTX:
        raise PermissionError(f"it is shared by all users; name a folder inside it: {folder}/NAME")
    if mode & 0o077:
        folder.chmod(0o700)


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


def make_temp_dir(folder: Path) -> Path:
    """A new folder for TMPDIR, linked from FOLDER/tmp so that it is found again.

    It is not inside FOLDER: sockets in it would have too long a name (108 characters at the most).
    """
    remove_temp_dir(folder)
    path = Path(tempfile.mkdtemp(prefix="group-"))
    (folder / TEMP_LINK).symlink_to(path)
    return path


def remove_temp_dir(folder: Path) -> None:
    """Removes what `make_temp_dir` made for `folder`, whoever made it; harmless if nothing did."""
    link = folder / TEMP_LINK
    with suppress(OSError):
        shutil.rmtree(link.resolve(strict=True), ignore_errors=True)
    link.unlink(missing_ok=True)
