"""SHA-256 sums of local files, remembered so that an unchanged file is read once."""

import contextlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from components.prepare_examples.raw_data.files import in_threads, sha256_of

logger = logging.getLogger(__name__)

MEMORY_FILE = ".digests.json"
# A file that changed so lately may change again within the same tick of the file system's clock.
SETTLED_NS = 2_000_000_000

Stamp = list[int]
Memory = dict[str, tuple[Stamp, str]]


def remembered_digests(files: Iterable[Path], *, folder: Path) -> dict[Path, tuple[int, str]]:
    """Return size and SHA-256 of each file; `folder` holds the memory of earlier calls.

    A file is read again when its size, times or inode have changed. A folder that cannot be read
    or written costs only time.
    """
    memory = _read(folder)
    stamps = {path: _stamp(path) for path in files}
    known = {
        path: memory[str(path)][1]
        for path, stamp in stamps.items()
        if str(path) in memory and memory[str(path)][0] == stamp
    }
    unknown = [path for path in stamps if path not in known]
    if unknown:
        now_ns = time.time_ns()
        found = dict(zip(unknown, in_threads(sha256_of, unknown), strict=True))
        known |= found
        for path, digest in found.items():
            stamp = _stamp(path)
            if stamp == stamps[path] and max(stamp[1:3]) < now_ns - SETTLED_NS:
                memory[str(path)] = (stamp, digest)
        _write(folder, {name: one for name, one in memory.items() if Path(name).exists()})
    return {path: (stamp[0], known[path]) for path, stamp in stamps.items()}


def _stamp(path: Path) -> Stamp:
    """Return what changes with a file's content; ctime also where mtime is set back."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _read(folder: Path) -> Memory:
    try:
        content = json.loads((folder / MEMORY_FILE).read_text())
        return {str(name): (list(stamp), str(digest)) for name, (stamp, digest) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(folder: Path, memory: Memory) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(prefix=f"{MEMORY_FILE}.", dir=folder)  # 0600
    except OSError as error:
        logger.info("digests are not remembered: %s", error)
        return
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(memory, file)
        os.replace(partial, folder / MEMORY_FILE)
    except OSError as error:
        logger.info("digests are not remembered: %s", error)
        with contextlib.suppress(OSError):
            os.unlink(partial)
