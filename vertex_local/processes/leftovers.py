"""Processes and temporary files that a killed service has left, found again at the next start.

All that a service starts has the service's root folder in its environment, under ROOT_VARIABLE,
and its temporary files below one folder, to which ROOT/tmp points. PID namespaces
(`pid_namespace.py`) make this the second line of defence for processes, and the first where the
system refuses them. Whoever holds the root's lock may call these.
"""

import fcntl
import logging
import os
import secrets
import select
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

ROOT_VARIABLE = "VERTEX_LOCAL_ROOT"
TEMP_LINK = "tmp"
TEMP_PREFIX = "vertex-local-"
# Supervisors whose service has ended kill their groups and record that by themselves.
OWN_END_SECONDS = 2.0
KILL_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.02


def remove(root: Path) -> None:
    """End the processes and remove the temporary files that an earlier service left."""
    _await_own_end(root)
    _kill(root)
    remove_temp_dir(root)


def mark_what_follows(root: Path) -> None:
    """Make what this process starts from now on bear the root's mark and use its temporary folder.

    The folder is recorded before it exists, so that a kill at any moment leaves none unrecorded.
    """
    path = Path(tempfile.gettempdir()) / f"{TEMP_PREFIX}{secrets.token_hex(4)}"
    (root / TEMP_LINK).unlink(missing_ok=True)
    (root / TEMP_LINK).symlink_to(path)
    path.mkdir(mode=0o700)
    # As long as this process lives: systemd-tmpfiles removes old folders that nobody has locked.
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH)
    os.environ |= {ROOT_VARIABLE: str(root), "TMPDIR": str(path)}
    tempfile.tempdir = None


def remove_temp_dir(root: Path) -> None:
    """Remove the recorded temporary folder, if there is one and it is a service's."""
    link = root / TEMP_LINK
    if not link.is_symlink():
        return
    path = Path(os.readlink(link))
    if not _is_temp_dir(path):
        logger.warning("%s names %s, which is not a service's folder: kept", link, path)
        return
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():  # else a process still writes there, and the next start tries again
        link.unlink(missing_ok=True)


def _is_temp_dir(path: Path) -> bool:
    """Return whether nobody but a service of this user can have made a folder, if it exists."""
    if not path.is_absolute() or not path.name.startswith(TEMP_PREFIX):
        return False
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _await_own_end(root: Path) -> None:
    deadline = time.monotonic() + OWN_END_SECONDS
    while any(_marked(root)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _kill(root: Path) -> None:
    """Kill marked processes until there are none: a killed one may have started another."""
    deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
    while pids := list(_marked(root)):
        if time.monotonic() > deadline:
            logger.warning(
                "%s of an earlier service on %s cannot be killed within %.0f s",
                ", ".join(f"process {pid}" for pid in pids),
                root,
                KILL_TIMEOUT_SECONDS,
            )
            return
        for pid in pids:
            _kill_marked(pid, root)


def _kill_marked(pid: int, root: Path) -> None:
    """Kill a process and wait a moment for its end, unless its number is another's by now."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _has_mark(pid, root):
            logger.info("Killing process %d, which an earlier service left", pid)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [], POLL_SECONDS)
    except OSError as error:
        logger.warning("Process %d, which an earlier service left, stays: %s", pid, error)
    finally:
        os.close(pidfd)


def _marked(root: Path) -> Iterator[int]:
    """Yield the processes of this user that bear the root's mark, without this one."""
    for entry in os.scandir("/proc"):
        with suppress(OSError):  # it has ended
            is_own = entry.name.isdigit() and entry.stat().st_uid == os.geteuid()
            if is_own and int(entry.name) != os.getpid() and _has_mark(int(entry.name), root):
                yield int(entry.name)


def _has_mark(pid: int, root: Path) -> bool:
    """Return whether a process was started with the root in its environment; False of a dead one.

    Raises:
        OSError: it has ended, or does not let itself be looked at.
    """
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return os.fsencode(f"{ROOT_VARIABLE}={root}") in variables
