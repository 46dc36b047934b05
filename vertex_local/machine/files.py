"""Files that supervisors write and read. Standard library only."""

import json
import logging
import os
import secrets
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vertex_local import Json
from vertex_local.machine import buckets

logger = logging.getLogger(__name__)

TEMP_LINK = "tmp"
SERVICE_PREFIX = "vertex-local-"
GROUP_PREFIX = "group-"
NUM_LAST_LINES = 20
LAST_LINES_BYTES = 4000
TAIL_BYTES = 64 * 1024


def write_json(path: Path, body: Json) -> None:
    """Write a JSON file atomically, so that no reader sees an incomplete one."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.write_text(json.dumps(body, indent=1))
    draft.replace(path)


def log_line(text: str) -> None:
    """Write a line to stderr, if that is possible: the disk of the log may be full."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="replace"))


def local_path(uri: str) -> Path | None:
    """Return the absolute path of a path, or of a file:// or gs:// URI; None for any other text."""
    if uri.startswith(buckets.SCHEME):
        return buckets.local_path(uri)
    parts = urlsplit(uri)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost")
    path = unquote(parts.path) if is_file else uri
    return Path(path) if path.startswith("/") and "\0" not in path else None


def path_problem(uri: str) -> str:
    """Return why a text has no path on this machine, and what to write instead."""
    if uri.startswith(buckets.SCHEME):
        return buckets.problem_of(uri)
    return "is not on this machine; give an absolute path, file:///path or gs://BUCKET/NAME"


def make_private(folder: Path) -> None:
    """Create a folder with mode 700, or remove the access of others from an existing one.

    Raises:
        OSError: All users may write to it, as to /tmp, another user owns it, or its mode cannot be
            changed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_mode & stat.S_ISVTX:
        raise PermissionError(
            f"it is shared by all users; choose a folder inside it: {folder}/NAME"
        )
    if status.st_uid != os.geteuid():
        raise PermissionError(
            f"it belongs to the user {status.st_uid}, not to {os.geteuid()}; choose your own folder"
        )
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def tail(path: Path, *, num_bytes: int = TAIL_BYTES) -> str:
    """Return the end of a log, at most 64 kB; of a progress bar its last state.

    None of a pipe, whose other reader has it.
    """
    if not path.is_file():
        return ""  # opening a pipe waits for a writer, who may have been killed
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - num_bytes))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip().split("\n"))


def last_lines(path: Path) -> str:
    """Return the last 20 lines of a log, at most 4000 bytes."""
    lines = tail(path, num_bytes=4 * LAST_LINES_BYTES).split("\n")
    return "\n".join(lines[-NUM_LAST_LINES:])[-LAST_LINES_BYTES:]


def make_temp_dir(folder: Path, *, prefix: str) -> Path:
    """Create a folder for TMPDIR, linked from FOLDER/tmp for `remove_temp_dir`.

    It is not inside FOLDER: names of sockets in it would exceed the limit of 108 characters. The
    link is made first, so that a kill leaves no folder without one.
    """
    remove_temp_dir(folder)
    path = Path(tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(4)}"
    (folder / TEMP_LINK).unlink(missing_ok=True)
    (folder / TEMP_LINK).symlink_to(path)
    path.mkdir(mode=0o700)
    return path


def remove_temp_dir(folder: Path) -> None:
    """Remove the folder that `make_temp_dir` created for `folder` in any process, if it exists."""
    link = folder / TEMP_LINK
    if not link.is_symlink():
        return
    path = Path(os.readlink(link))
    if not _is_temp_dir(path):
        logger.warning("%s names %s, which is no temporary folder: not removed", link, path)
        return
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():  # if a process still writes there, the next start removes it
        link.unlink(missing_ok=True)


def _is_temp_dir(path: Path) -> bool:
    """Return whether this user created a folder with `make_temp_dir`, or it does not exist."""
    if not path.is_absolute() or not path.name.startswith((SERVICE_PREFIX, GROUP_PREFIX)):
        return False
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
