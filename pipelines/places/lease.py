"""Locks in a service's root folder with which commands share a service and the last one stops it.

ROOT/users: each command that uses the service holds a shared lock, which the kernel releases even
if the command is killed. The last command, or the service itself, takes it exclusively and stops
the service; new commands wait for that.
ROOT/start.lock: held while a command finds or starts the service.
ROOT/lock: held by the service; contains its pid.
"""

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

USERS_FILE = "users"
START_FILE = "start.lock"
SERVICE_FILE = "lock"
# Exists while the service is to stop with its last user.
ENDS_WHEN_UNUSED_FILE = "ends-when-unused"
LOCK_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.02
STOP_TIMEOUT_SECONDS = 60.0


class LeaseError(Exception):
    """A lock was not released in time."""


class Lease:
    """Use of the service on a root folder, until `close` or the end of this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        waits_for = f"the service on {root} to stop; vertex-local stop --root {root} stops it"
        self._file = _locked(root / USERS_FILE, fcntl.LOCK_SH, waits_for=waits_for)

    def close(self) -> None:
        """Release the lock; as the last user, stop the service unless it is to be kept."""
        with self._file:
            if self._is_last() and (self._root / ENDS_WHEN_UNUSED_FILE).exists():
                stop_service(self._root)

    def _is_last(self) -> bool:
        """Return whether this is the last user; if so, no other can join until the file closes.

        Of several concurrent calls one gets the lock: flock(2) releases the shared lock first.
        """
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def keep_service(root: Path) -> None:
    """Keep the service on `root` running after its last user."""
    (root / ENDS_WHEN_UNUSED_FILE).unlink(missing_ok=True)


@contextlib.contextmanager
def starting(root: Path) -> Iterator[None]:
    """Hold the lock under which one command at a time finds or starts the service."""
    waits_for = f"another command to start the service on {root}"
    with _locked(root / START_FILE, fcntl.LOCK_EX, waits_for=waits_for):
        yield


def service_pid(root: Path) -> int | None:
    """Return the pid of the service on `root`, 0 while it starts, None if there is none."""
    try:
        with (root / SERVICE_FILE).open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdigit() else 0
    except FileNotFoundError:
        pass
    return None


def stop_service(root: Path) -> None:
    """Stop the service on `root` and wait until its process has ended."""
    pid = service_pid(root)
    if not pid:
        return
    with contextlib.suppress(ProcessLookupError), _pidfd(pid) as fd:
        if service_pid(root) != pid:  # it ended before the pidfd was opened
            return
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        if not select.select([fd], [], [], STOP_TIMEOUT_SECONDS)[0]:
            signal.pidfd_send_signal(fd, signal.SIGKILL)  # its children end with it
            select.select([fd], [], [], STOP_TIMEOUT_SECONDS)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(path: Path, operation: int, *, waits_for: str) -> IO[str]:
    """Open and lock a file, which child processes do not inherit, until it is closed."""
    file = path.open("a", encoding="utf-8")
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, operation | fcntl.LOCK_NB)
                return file
            if time.monotonic() > deadline:
                raise LeaseError(f"waited {LOCK_TIMEOUT_SECONDS:.0f} s for {waits_for}")
            time.sleep(POLL_SECONDS)
    except BaseException:
        file.close()
        raise
