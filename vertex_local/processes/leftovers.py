"""Removal of processes and temporary files that a killed service has left, at the next start.

Every process of a service has the root folder in its environment, as ROOT_VARIABLE, and its
temporary files in one folder, to which ROOT/tmp points. PID namespaces (`namespaces.py`) end the
processes of a killed service already; where the system refuses them, this module does. Only the
holder of the root's lock may call it.
"""

import fcntl
import logging
import os
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vertex_local.machine.files import SERVICE_PREFIX, make_temp_dir, remove_temp_dir

logger = logging.getLogger(__name__)

ROOT_VARIABLE = "VERTEX_LOCAL_ROOT"
# Supervisors end their groups, and record that, when their service has ended.
SUPERVISORS_END_SECONDS = 2.0
KILL_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.02


def remove(root: Path) -> None:
    """Kill the processes and remove the temporary files of an earlier service."""
    _await_supervisors(root)
    _kill(root)
    remove_temp_dir(root)


def mark_environment(root: Path) -> None:
    """Set the root's mark and a temporary folder for all children in this process's environment."""
    path = make_temp_dir(root, prefix=SERVICE_PREFIX)
    # Held as long as this process lives: systemd-tmpfiles removes old folders without a lock.
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH)
    os.environ |= {ROOT_VARIABLE: str(root), "TMPDIR": str(path)}
    tempfile.tempdir = None


def _await_supervisors(root: Path) -> None:
    deadline = time.monotonic() + SUPERVISORS_END_SECONDS
    while any(_marked(root)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _kill(root: Path) -> None:
    """Kill marked processes until none is left: one may start another before it is killed."""
    deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
    while pids := list(_marked(root)):
        if time.monotonic() > deadline:
            logger.warning(
                "%s of an earlier service on %s could not be killed within %.0f s",
                ", ".join(f"process {pid}" for pid in pids),
                root,
                KILL_TIMEOUT_SECONDS,
            )
            return
        for pid in pids:
            _kill_marked(pid, root)


def _kill_marked(pid: int, root: Path) -> None:
    """Kill a process and wait briefly for its end, unless its pid has been reused."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _has_mark(pid, root):
            logger.info("Killing process %d of an earlier service", pid)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [], POLL_SECONDS)
    except OSError as error:
        logger.warning("Process %d of an earlier service cannot be killed: %s", pid, error)
    finally:
        os.close(pidfd)


def _marked(root: Path) -> Iterator[int]:
    """Yield the processes of this user with the root's mark, except this one."""
    for entry in os.scandir("/proc"):
        with suppress(OSError):  # it has ended
            is_own = entry.name.isdigit() and entry.stat().st_uid == os.geteuid()
            if is_own and int(entry.name) != os.getpid() and _has_mark(int(entry.name), root):
                yield int(entry.name)


def _has_mark(pid: int, root: Path) -> bool:
    """Return whether a process was started with the root in its environment; False for a zombie.

    Raises:
        OSError: It has ended, or its environment cannot be read.
    """
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return os.fsencode(f"{ROOT_VARIABLE}={root}") in variables
