"""Store of a user's environments: built once, shared by all services, limited in size.

FOLDER/KEY has one: `lock`, `venv`, and `environment.json`, which is written when the build is
complete. Users hold a shared flock(2) on `lock`, builders and removers an exclusive one. Locks end
with their process, so an incomplete environment of a killed builder is recognised and removed.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vertex_local.machine.clock import now
from vertex_local.machine.files import make_private, write_json
from vertex_local.processes.environments.commands import own_kfp

LOCK_FILE, RECORD_FILE, VENV_FOLDER = "lock", "environment.json", "venv"
FOLDER_VARIABLE, LIMIT_VARIABLE = "VERTEX_LOCAL_ENVIRONMENTS", "VERTEX_LOCAL_ENVIRONMENTS_GB"
DEFAULT_LIMIT_GB = 10.0
POLL_SECONDS = 0.1
KEY_LENGTH = 12


class StoreError(Exception):
    """A setting of the store is invalid; the message names it."""


@dataclass(frozen=True)
class Environment:
    """A complete environment."""

    key: str
    folder: Path
    requirements: tuple[str, ...]
    packages: tuple[str, ...]
    size_bytes: int
    built: str
    last_used: float
    is_in_use: bool


@dataclass(frozen=True)
class Store:
    """A folder of environments; above the limit the least recently used are removed."""

    folder: Path
    limit_bytes: int

    @classmethod
    def of_user(cls) -> "Store":
        """Return the store of this user, which all their services share.

        Raises:
            StoreError: The limit is not a number.
        """
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.environ.get(FOLDER_VARIABLE) or Path(cache, "vertex-local", "environments")
        text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_LIMIT_GB))
        try:
            limit = int(float(text) * 1e9)
        except (ValueError, OverflowError):
            limit = -1
        if limit < 0:
            message = f"{LIMIT_VARIABLE}={text!r} is not a number of gigabytes"
            raise StoreError(f"{message}, such as {DEFAULT_LIMIT_GB}")
        return cls(Path(folder).absolute(), limit)

    @contextmanager
    def using(
        self, key: str, *, build: Callable[[Path], None], wait: Callable[[], None]
    ) -> Iterator[Path]:
        """Yield the virtual environment of a key, which is not removed meanwhile.

        Args:
            key: See `key_of`.
            build: Builds the environment and its record in the given folder.
            wait: Called repeatedly while another process builds it; may raise to cancel.
        """
        make_private(self.folder)
        folder = self.folder / key
        lock = self._lock_complete(folder, build=build, wait=wait)
        try:
            os.utime(folder / RECORD_FILE)
            yield folder / VENV_FOLDER
        finally:
            os.close(lock)

    def environments(self) -> list[Environment]:
        """Return the complete environments, the last used first."""
        found = [one for key in self._keys() if (one := self._read(key))]
        return sorted(found, key=lambda one: -one.last_used)

    def remove(self, key: str) -> bool:
        """Remove an environment; return False if it is in use or being built."""
        folder = self.folder / key
        lock = _lock(folder, fcntl.LOCK_EX)
        if lock is None:
            return not folder.exists()
        _remove(folder)
        os.close(lock)
        return True

    def prune(self) -> list[Environment]:
        """Remove incomplete environments, and the least recently used above the limit.

        Returns:
            The removed environments that were complete.
        """
        for key in self._keys():
            if self._read(key) is None:
                self.remove(key)
        kept = self.environments()
        total = sum(one.size_bytes for one in kept)
        removed = []
        while kept and total > self.limit_bytes:
            oldest = kept.pop()
            if self.remove(oldest.key):
                total -= oldest.size_bytes
                removed.append(oldest)
        return removed

    def _lock_complete(
        self, folder: Path, *, build: Callable[[Path], None], wait: Callable[[], None]
    ) -> int:
        """Return the shared lock of an environment, once this or another process has built it."""
        while True:
            lock = _lock(folder, fcntl.LOCK_SH, is_new=True)
            if lock is not None and (folder / RECORD_FILE).exists():
                return lock
            if lock is not None:
                os.close(lock)
            lock = _lock(folder, fcntl.LOCK_EX, is_new=True)
            if lock is not None:
                try:
                    if not (folder / RECORD_FILE).exists():
                        shutil.rmtree(folder / VENV_FOLDER, ignore_errors=True)
                        build(folder)
                except BaseException:
                    _remove(folder)
                    os.close(lock)
                    raise
                fcntl.flock(lock, fcntl.LOCK_SH)  # another process may remove it before this lock
                if (folder / RECORD_FILE).exists():
                    return lock
                os.close(lock)
                continue
            wait()
            time.sleep(POLL_SECONDS)

    def _keys(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

    def _read(self, key: str) -> Environment | None:
        folder = self.folder / key
        try:
            record = json.loads((folder / RECORD_FILE).read_text())
            last_used = (folder / RECORD_FILE).stat().st_mtime
            known = {name: record[name] for name in ("size_bytes", "built")}
            requirements, packages = tuple(record["requirements"]), tuple(record["packages"])
        except (OSError, ValueError, KeyError, TypeError):  # incomplete or damaged
            return None
        lock = _lock(folder, fcntl.LOCK_EX)
        if lock is not None:
            os.close(lock)
        return Environment(
            key=key,
            folder=folder,
            requirements=requirements,
            packages=packages,
            last_used=last_used,
            is_in_use=lock is None,
            **known,
        )


def key_of(installs: tuple[tuple[str, ...], ...]) -> str:
    """Return the key of an environment: a digest of requirements, kfp and Python.

    Files and folders among the requirements enter with their sizes and times.
    """
    files = [_signature(Path(word)) for arguments in installs for word in arguments]
    python = [sys.version, os.path.realpath(sys.executable), platform.machine()]
    text = json.dumps([installs, files, own_kfp(), python])
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def write_record(folder: Path, *, requirements: tuple[str, ...], packages: list[str]) -> int:
    """Mark an environment as complete; return its size in bytes."""
    size_bytes = sum(_sizes(folder))
    record = {
        "requirements": requirements,
        "packages": sorted(packages),
        "size_bytes": size_bytes,
        "built": now(timespec="seconds"),
        "python": platform.python_version(),
    }
    write_json(folder / RECORD_FILE, record)
    return size_bytes


def _lock(folder: Path, kind: int, *, is_new: bool = False) -> int | None:
    """Return a lock on an environment; None if another process holds one or it is missing."""
    if is_new:
        folder.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | (os.O_CREAT if is_new else 0), 0o600)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), (folder / LOCK_FILE).stat()):  # not removed
                return lock
        except OSError:
            pass
        os.close(lock)
    return None


def _remove(folder: Path) -> None:
    """Remove a locked environment, first the record that marks it as complete."""
    (folder / RECORD_FILE).unlink(missing_ok=True)
    shutil.rmtree(folder / VENV_FOLDER, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _signature(path: Path) -> list[tuple[str, int, int]]:
    """Return size and time of a file, or of all files in a folder; else nothing."""
    try:
        paths = sorted(path.rglob("*")) if path.is_dir() else [path]
        found = [(str(one), one.stat()) for one in paths if one.is_file()]
    except (OSError, ValueError):
        return []
    return [(name, status.st_size, status.st_mtime_ns) for name, status in found]


def _sizes(folder: Path) -> Iterator[int]:
    """Yield the size on disk of each file in a folder."""
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.lstat(os.path.join(place, name)).st_blocks * 512
