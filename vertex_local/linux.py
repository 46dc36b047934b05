"""What Linux offers to keep hold of child processes and of all that they start.

A dead child keeps its pid until it is reaped, and with it the name of its process group. So a
group is always killed first and its leader reaped afterwards: no signal can reach a stranger.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# <linux/prctl.h>
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Makes orphaned grandchildren children of this process, which can then end them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> Callable[[], None]:
    """What a child calls before exec, so that it is killed when this process is.

    The signal is tied to the thread that forks (prctl(2)): fork from one that lives as long as
    the process. A parent that died before the call sends none, hence the look at getppid.
    """
    libc = ctypes.CDLL(None)
    parent = os.getpid()
    return lambda: _die_with(libc, parent)


def die_with(parent: int) -> None:
    """The same for a child that does not exec: it is killed when `parent` is."""
    _die_with(ctypes.CDLL(None), parent)


def _die_with(libc: ctypes.CDLL, parent: int) -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def open_wake_fd() -> int:
    """A file descriptor that becomes readable when a signal arrives, such as a child's end."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read_fd


def next_dead_child() -> int:
    """The pid of a child that has ended and is not reaped yet, or 0."""
    try:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return dead.si_pid if dead else 0


def reap(pid: int) -> int:
    """The exit code of a dead child, minus the signal's number if one killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def reap_with_usage(pid: int) -> tuple[int, dict[str, float]]:
    """The same, and what the child has used: `cpu_seconds` and `peak_memory_bytes`."""
    _, status, used = os.wait4(pid, 0)
    usage = {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_memory_bytes": used.ru_maxrss * 1024,
    }
    return os.waitstatus_to_exitcode(status), usage


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signals the process group of a child that is not reaped yet."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_adopted_group(leader: int) -> None:
    """Kills and reaps the process group of a dead child, which its own parent could not do.

    A group whose leader is no child of this process is left alone: its number may be a stranger's.
    """
    try:
        os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return
    signal_group(leader, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-leader, 0)


def kill_all_children(*, timeout_seconds: float) -> None:
    """Kills and reaps every child, and the orphans which that makes children of this process."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            for child in children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.01)


def children() -> list[int]:
    """The pids of this process's children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text(errors="replace").rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        if int(rest.split()[1]) == os.getpid():
            found.append(int(stat.parent.name))
    return found


def signal_name(number: int) -> str:
    """`SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
