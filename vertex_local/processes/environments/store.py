"""Environments of a user, shared by all services: FOLDER/KEY is complete, or does not exist.

An environment is built beside its place and then renamed. Two steps may build the same one at a
time, which costs little: uv has the packages in its cache, and links their files.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vertex_local.machine.files import make_private
from vertex_local.processes.environments.commands import own_kfp

FOLDER_VARIABLE = "VERTEX_LOCAL_ENVIRONMENTS"
DRAFT_PREFIX = "building-"
DRAFT_SECONDS = 24 * 3600.0  # a draft that is older is a killed build's
UNUSED_SECONDS = 30 * 24 * 3600.0
KEY_LENGTH = 12


def prefix_of(installs: tuple[tuple[str, ...], ...]) -> Path:
    """Return the place of an environment, named by a digest of requirements, kfp and Python.

    Files and folders among the requirements enter with their sizes and times.
    """
    files = [_signature(Path(word)) for arguments in installs for word in arguments]
    python = [sys.version, os.path.realpath(sys.executable), platform.machine()]
    text = json.dumps(["uv", installs, files, own_kfp(), python])
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get(FOLDER_VARIABLE) or Path(cache, "vertex-local", "environments")
    return Path(folder).absolute() / hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def is_complete(prefix: Path) -> bool:
    """Return whether an environment exists, and record its use."""
    with suppress(FileNotFoundError):
        os.utime(prefix)
        return True
    return False


@contextmanager
def building(prefix: Path) -> Iterator[Path]:
    """Yield a draft of an environment, which takes its place after the block, unless that raises.

    Removes the environments that no step has used for 30 days.
    """
    make_private(prefix.parent)
    _remove_old(prefix.parent)
    draft = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=prefix.parent))
    try:
        yield draft
        try:
            draft.rename(prefix)
        except OSError:
            if not prefix.exists():  # otherwise another step has built it meanwhile
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        limit = DRAFT_SECONDS if path.name.startswith(DRAFT_PREFIX) else UNUSED_SECONDS
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - limit:
                shutil.rmtree(path, ignore_errors=True)


def _signature(path: Path) -> list[tuple[str, int, int]]:
    """Return size and time of a file, or of all files in a folder; else nothing."""
    try:
        paths = sorted(path.rglob("*")) if path.is_dir() else [path]
        statuses = [(str(file), file.stat()) for file in paths if file.is_file()]
    except (OSError, ValueError):
        return []
    return [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]
