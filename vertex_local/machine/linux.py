"""Linux system calls to control child processes and their descendants.

A child that has ended keeps its pid, which is also the id of its process group, until it is reaped.
So a group is killed before its leader is reaped: no signal can reach an unrelated process.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

from vertex_local.machine.children import Exit, exit_of, reap, signal_group

# <linux/prctl.h>
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# <linux/sched.h>
CLONE_NEWUSER = 0x10000000
# <linux/mount.h>
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 0x1, 0x20, 0x1000, 0x4000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x2, 0x4, 0x8


def set_session_niceness(niceness: int) -> None:
    """Set the niceness of this process's session, if the kernel weighs sessions (sched(7)).

    It then heeds the niceness of a process only against others of its session. Without root it
    takes one such call in a tenth of a second, of all processes, and ignores the others.
    """
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness))


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that this process can end them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> Callable[[], None] | None:
    """Return a `preexec_fn` that has the kernel kill the child when this process ends.

    The signal comes when the thread that forked ends (prctl(2)): fork from one that lives as long
    as the process. getppid finds out whether the parent ended before the call.
    """
    libc = ctypes.CDLL(None)
    parent = os.getpid()
    return lambda: _die_with(libc, parent)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent `parent` ends."""
    _die_with(ctypes.CDLL(None), parent)


def _die_with(libc: ctypes.CDLL, parent: int) -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # 0 is a parent outside this PID namespace; the init of the namespace is killed with it.
    if os.getppid() not in (parent, 0):
        os._exit(1)


def unshare(namespaces: int) -> None:
    """Move this process into new namespaces, and into a new user namespace unless it is root's.

    Raises:
        OSError: The system does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.unshare(namespaces | (CLONE_NEWUSER if user else 0)), "unshare(2)")
    if user:
        _keep_identity(user, group)


def set_namespace(fd: int) -> None:
    """Move this process into the namespace of an open /proc/PID/ns file.

    Raises:
        OSError: The system does not allow it.
    """
    check(ctypes.CDLL(None, use_errno=True).setns(fd, 0), "setns(2)")


def bind(folder: str, target: str) -> None:
    """Show a folder at `target`, too, in this process's mount namespace.

    Raises:
        OSError: The system does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.mount(folder.encode(), target.encode(), None, MS_BIND | MS_REC, None), "mount(2)")


def make_read_only(folder: str) -> None:
    """Make a folder with its contents read-only in this process's mount namespace.

    Raises:
        OSError: The system does not allow it.
    """
    bind(folder, folder)
    libc, path = ctypes.CDLL(None, use_errno=True), folder.encode()
    # The owner of a user namespace may not clear these flags (mount_namespaces(7)).
    kept = os.statvfs(folder).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | kept
    check(libc.mount(None, path, None, flags, None), "mount(2)")


def check(result: int, call: str) -> None:
    """Raise OSError if the result of a system call is not 0."""
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{call} was refused: {os.strerror(number)}")


def _keep_identity(user: int, group: int) -> None:
    """Map user and group to themselves in the new user namespace."""
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")


def try_in_fork(action: Callable[[], object]) -> None:
    """Run `action` in a fork and wait for its end.

    Raises:
        OSError: The error that `action` raised.
    """
    pid = os.fork()
    if not pid:
        number = 255
        try:
            action()
            number = 0
        except OSError as error:
            number = error.errno or number
        finally:
            os._exit(number)
    if number := abs(reap(pid)):
        raise OSError(number, os.strerror(number))


def next_dead_child() -> int:
    """Return the pid of a child that has ended and is not reaped yet, or 0."""
    try:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return dead.si_pid if dead else 0


def reap_next(leaders: Container[int]) -> Exit | None:
    """Reap a child that has ended; if it is one of `leaders`, kill its process group before."""
    pid = next_dead_child()
    if pid in leaders:
        signal_group(pid, signal.SIGKILL)
    return exit_of(*os.wait4(pid, 0)) if pid else None


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def yield_cores(pid: int) -> None:
    """Let a process, and its later threads, wait for the thread that runs when they wake."""
    os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))


def end_adopted_group(leader: int) -> None:
    """Kill and reap the process group of an adopted child, whose own supervisor was killed.

    Does nothing if the leader is not a child of this process: the pid may have been reused.
    """
    try:
        os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return
    signal_group(leader, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-leader, 0)


def kill_all_children(group: Path, *, init_pid: int, timeout_seconds: float) -> None:
    """Kill and reap every child, and the orphans that become children of this process.

    The kernel kills all of them with `init_pid`, the init of their PID namespace; 0 if they have
    none. `group`, its folder, is unused.
    """
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == init_pid:
            init_pid = -1  # the namespace has ended, and its /proc is empty
        if not pid:
            for child in [init_pid] if init_pid > 0 else children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.002 if init_pid else 0.01)


def end_orphans(group: Path, *, timeout_seconds: float) -> None:
    """Reap the processes of a killed supervisor's PID namespace, which this process has adopted.

    The kernel has killed them, but the namespace ends only when all are reaped.
    """
    deadline = time.monotonic() + timeout_seconds
    while orphans := [child for child in children() if _has_own_pid_namespace(child)]:
        for orphan in orphans:
            with suppress(ChildProcessError):  # reaped by another thread
                os.waitpid(orphan, os.WNOHANG)
        if time.monotonic() > deadline:
            return
        time.sleep(0.002)


def _has_own_pid_namespace(pid: int) -> bool:
    """Return whether a process is in a PID namespace below the namespace of this /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return False
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return len(fields["NSpid"].split()) > 1


def children() -> list[int]:
    """Return the pids of this process's children."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if _parent_of(pid) == os.getpid()]


def _parent_of(pid: int) -> int:
    """Return the parent of a process (proc(5)), 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0
