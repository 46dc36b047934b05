"""Control of processes on any POSIX system, written for macOS; weaker than Linux's own.

The processes of a group end with the process group of their replica, as descendants of those, and
by a mark in their environment. What has left all three survives. A guard, a process of its own,
ends them once their supervisor has ended:
`python -m vertex_local.machine.portable FOLDER`, whose stdin the supervisor holds open.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil

from vertex_local.machine.children import STATE_FILE, Exit, exit_of, signal_group
from vertex_local.machine.marks import marked

# Folders of the groups that a process belongs to, quoted; a group may start others.
GROUPS_VARIABLE = "VERTEX_LOCAL_GROUPS"
POLL_SECONDS = 0.01
GUARD_TIMEOUT_SECONDS = 10.0


def contain(group: Path) -> int:
    """Mark all later children as processes of a group, and start its guard; return its pid.

    Raises:
        OSError: No process can be started.
    """
    read_fd, _kept = os.pipe()  # open until this process ends
    command = [sys.executable, "-m", "vertex_local.machine.portable", str(group)]
    guard = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdin=read_fd, start_new_session=True
    )
    guard.returncode = 0  # the supervisor reaps it
    os.close(read_fd)
    os.environ[GROUPS_VARIABLE] = f"{os.environ.get(GROUPS_VARIABLE, '')} {_mark_of(group)}"
    return guard.pid


def become_subreaper() -> None:
    """Do nothing: orphans become children of init."""


def die_with_parent() -> Callable[[], None] | None:
    """Return no `preexec_fn`: the guard ends the children."""
    return None


def enter_private_network() -> None:
    """Raise OSError: there is one network for all processes."""
    raise OSError(errno.ENOTSUP, "only Linux has network namespaces")


def bind(folder: str, target: str) -> None:
    """Raise OSError: there is one tree of files for all processes."""
    raise OSError(errno.ENOTSUP, "only Linux has mount namespaces", folder, None, target)


def make_read_only(folder: str) -> None:
    """Do nothing: what a step writes there directly stays."""


def reap_next(leaders: Container[int]) -> Exit | None:
    """Reap a child that has ended; if it is one of `leaders`, kill its process group.

    The group's id is not reused while the group has processes.
    """
    try:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    if pid in leaders:
        signal_group(pid, signal.SIGKILL)
    return exit_of(pid, status, usage) if pid else None


def end_orphans(group: Path, *, timeout_seconds: float) -> None:
    """Kill the processes of a group whose supervisor has ended, until none is left."""
    with suppress(OSError, ValueError):
        for replica in json.loads((group / STATE_FILE).read_text())["replicas"].values():
            if replica["pid"] and not replica["ended"]:
                signal_group(replica["pid"], signal.SIGKILL)
    deadline = time.monotonic() + timeout_seconds
    while _kill(_members(group)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def end_adopted_group(leader: int) -> None:
    """Do nothing: `end_orphans` ended it."""


def kill_all_children(group: Path, *, init_pid: int, timeout_seconds: float) -> None:
    """Kill the processes of a group, the descendants of this process and then its guard."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        with suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                init_pid = 0 if pid == init_pid else init_pid
        descendants = psutil.Process().children(recursive=True)
        left = [child for child in {*_members(group), *descendants} if child.pid != init_pid]
        if not left and not init_pid:
            return
        _kill(left or descendants)
        time.sleep(POLL_SECONDS)


def num_cores() -> int:
    """Return the number of this machine's cores."""
    return os.cpu_count() or 1


def yield_cores(pid: int) -> None:
    """Do nothing: there is no SCHED_BATCH."""


def _members(group: Path) -> set[psutil.Process]:
    """Return the marked processes of a group, and their descendants, which may hide the mark.

    macOS shows the environment of Python, but not of all of its own programs.
    """
    mark = _mark_of(group)
    members = set(marked(lambda environment: mark in environment.get(GROUPS_VARIABLE, "").split()))
    for process in list(members):
        with suppress(psutil.Error):
            members.update(process.children(recursive=True))
    return members


def _kill(processes: set[psutil.Process] | list[psutil.Process]) -> bool:
    """Kill processes, unless their pids have been reused; return whether there were any."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    return bool(processes)


def _mark_of(group: Path) -> str:
    return quote(str(group), safe="")


def main() -> None:
    """Guard the group of the folder on the command line."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    end_orphans(Path(sys.argv[1]), timeout_seconds=GUARD_TIMEOUT_SECONDS)


if __name__ == "__main__":
    main()
