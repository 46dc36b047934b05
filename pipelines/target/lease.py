"""Locks in a service's root folder, by which commands share one service and end it together.

ROOT/users is locked shared by each command that uses the service, so a service that ends when
unused runs until the last of them has ended; the kernel releases the locks of a process that is
killed. Whoever holds it exclusively, the last command or the service, ends the service; a new
command waits for that. ROOT/start.lock is held while a command finds or starts the service.
ROOT/lock is the service's own and names its pid.
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
# There while the service is to end with its last user; whoever removes it lets the service stay.
ENDS_WHEN_UNUSED_FILE = "ends-when-unused"
LOCK_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.02
STOP_TIMEOUT_SECONDS = 60.0


class LeaseError(Exception):
    """A lock was not released in time; the message says what holds it."""


class Lease:
    """One user of the service on a root folder, until `close` or the end of this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        waits_for = f"the service on {root} to end; vertex-local stop --root {root} ends it"
        self._file = _locked(root / USERS_FILE, fcntl.LOCK_SH, waits_for=waits_for)

    def close(self) -> None:
        """Gives the lease back. The last user ends a service that nobody keeps."""
        with self._file:
            if self._is_last() and (self._root / ENDS_WHEN_UNUSED_FILE).exists():
                end_service(self._root)

    def _is_last(self) -> bool:
        """Return whether there was no other user; if so, there will be none until the file closes.

        Of several that ask at once one gets the lock: flock(2) gives up the shared lock first.
        """
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def keep_service(root: Path) -> None:
    """Lets the service on `root` stay when its last user ends."""
    (root / ENDS_WHEN_UNUSED_FILE).unlink(missing_ok=True)


@contextlib.contextmanager
def starting(root: Path) -> Iterator[None]:
    """Hold the lock under which one command at a time finds or starts the service."""
    waits_for = f"another command to start the service on {root}"
    with _locked(root / START_FILE, fcntl.LOCK_EX, waits_for=waits_for):
        yield


def service_pid(root: Path) -> int | None:
    """Return the pid of the service that runs on `root`, 0 if it is just starting, or None."""
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


def end_service(root: Path) -> None:
    """End the service on `root` and wait until its process has gone."""
    pid = service_pid(root)
    if not pid:
        return
    with contextlib.suppress(ProcessLookupError), _pidfd(pid) as fd:
        if service_pid(root) != pid:  # it ended before we had hold of it
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
    """Open a file, which children do not inherit, and lock it until it is closed."""
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
