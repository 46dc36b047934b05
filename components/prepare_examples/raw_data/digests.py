"""Digests of files, computed once while a file does not change."""

import json
import logging
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from components.prepare_examples.raw_data.files import in_threads, sha256_of

logger = logging.getLogger(__name__)

CACHE_FILE = ".digests.json"
# A file that changed this recently may change again within one tick of the file system's clock.
SETTLED_NS = 2_000_000_000

Stamp = list[int]
Cache = dict[str, tuple[Stamp, str]]


def cached_digests(files: Iterable[Path], *, folder: Path) -> dict[Path, tuple[int, str]]:
    """Return size and SHA-256 of each file; `folder` holds the cache of earlier calls.

    A file is read again when its size, times or inode have changed. If the folder cannot be read or
    written, all files are read.
    """
    cache = _read(folder)
    stamps = {path: _stamp(path) for path in files}
    known = {
        path: cache[str(path)][1]
        for path, stamp in stamps.items()
        if str(path) in cache and cache[str(path)][0] == stamp
    }
    unknown = [path for path in stamps if path not in known]
    if unknown:
        now_ns = time.time_ns()
        computed = dict(zip(unknown, in_threads(sha256_of, unknown), strict=True))
        known |= computed
        for path, digest in computed.items():
            stamp = _stamp(path)
            if stamp == stamps[path] and max(stamp[1:3]) < now_ns - SETTLED_NS:
                cache[str(path)] = (stamp, digest)
        kept = {name: entry for name, entry in cache.items() if Path(name).exists()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=CACHE_FILE, dir=folder) as partial:
                file = Path(partial, CACHE_FILE)
                file.touch(0o600)
                file.write_text(json.dumps(kept), encoding="utf-8")
                os.replace(file, folder / CACHE_FILE)
        except OSError as error:
            logger.info("cannot cache digests: %s", error)
    return {path: (stamp[0], known[path]) for path, stamp in stamps.items()}


def _stamp(path: Path) -> Stamp:
    """Return values that change with a file's content; ctime does even if mtime is set back."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _read(folder: Path) -> Cache:
    try:
        content = json.loads((folder / CACHE_FILE).read_text())
        return {str(name): (list(stamp), str(digest)) for name, (stamp, digest) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
