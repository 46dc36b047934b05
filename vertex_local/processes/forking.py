"""Forks this process into one that starts as new: no files, handlers or threads of its parent.

A warm process (`warm_process.py`) does so, and so do the supervisors that are forks of it. The
child leaves its parent's stack by an exception, so that Python closes its copies of what the parent
had open; whoever began that stack must catch `Forked` and call `begin`.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vertex_local.machine import linux

FIRST_FREE_FD = 3
READY_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Birth:
    """How a fork begins.

    Attributes:
        run: What it does; the process ends when this returns.
        stdin: The file descriptor that becomes its stdin.
        output: The one that becomes its stdout and stderr.
        kept: Further ones that it has; no Python object must own them.
        env: Its environment; None for that of its parent.
        cwd: Its working directory; None for that of its parent.
        dies_with_parent: Whether it is killed when its parent is.
    """

    run: Callable[[], object]
    stdin: int
    output: int
    kept: tuple[int, ...] = ()
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    dies_with_parent: bool = False


@dataclass(frozen=True)
class Origin:
    """What belongs to the imported modules, so that their forks have it, too."""

    fds: frozenset[int]
    handlers: Mapping[signal.Signals, Any]

    @classmethod
    def now(cls, *, without: set[int]) -> "Origin":
        """What there is now, before anything but imports has happened; `without` are our files."""
        handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        return cls(frozenset(_open_fds() - without), handlers)


class Forked(BaseException):
    """Raised in the child of `fork`, up to where its stack began."""

    def __init__(self, birth: Birth, *, parent: int, report_fd: int) -> None:
        super().__init__("a forked process has not begun")
        self._birth, self._parent, self._report_fd = birth, parent, report_fd
        # The parent's frames may close theirs on the way.
        self._stdin, self._output = os.dup(birth.stdin), os.dup(birth.output)

    def begin(self, origin: Origin) -> Callable[[], object]:
        """Makes this process a new one and answers what it is to run."""
        try:
            self._become_new(origin)
        except BaseException as error:
            os.write(self._report_fd, str(error).encode()[:4000])
            os._exit(1)
        os.close(self._report_fd)  # the parent waits for it
        return self._birth.run

    def _become_new(self, origin: Origin) -> None:
        birth = self._birth
        os.setsid()
        if birth.dies_with_parent:
            linux.die_with(self._parent)
        os.dup2(self._stdin, 0)
        os.dup2(self._output, 1)
        os.dup2(self._output, 2)
        _close_all_but({*origin.fds, *birth.kept, self._report_fd})
        for fd in birth.kept:
            os.set_inheritable(fd, False)
        _restore_handlers(origin)
        if birth.cwd is not None:
            os.chdir(birth.cwd)
        if birth.env is not None:
            os.environ.clear()
            os.environ.update(birth.env)
        _forget_state()


def fork(birth: Birth) -> int:
    """Forks, and answers the child's pid once it has begun; in the child it raises `Forked`.

    This process must have one thread only.

    Raises:
        OSError: the child could not begin; none is left.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    read_fd, write_fd = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if not pid:
        os.close(read_fd)
        raise Forked(birth, parent=parent, report_fd=write_fd)  # signals stay blocked till `begin`
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(write_fd)
    try:
        problem = _report(read_fd)
    finally:
        os.close(read_fd)
    if problem:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise OSError(problem)
    return pid


def _report(read_fd: int) -> str:
    """What the child says went wrong; nothing if it has begun."""
    if not select.select([read_fd], [], [], READY_TIMEOUT_SECONDS)[0]:
        return f"a forked process had not begun after {READY_TIMEOUT_SECONDS:.0f} s"
    return os.read(read_fd, 4000).decode(errors="replace")


def _open_fds() -> set[int]:
    """The open file descriptors, but not the one with which they are listed."""
    listed = {int(name) for name in os.listdir("/proc/self/fd")}
    return {fd for fd in listed if _is_open(fd)}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _close_all_but(kept: set[int]) -> None:
    for fd in _open_fds() - kept:
        if fd >= FIRST_FREE_FD:
            os.close(fd)


def _restore_handlers(origin: Origin) -> None:
    signal.set_wakeup_fd(-1)
    for number, handler in origin.handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _forget_state() -> None:
    """What modules remember of the process that imported them."""
    time.tzset()
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    if tempfile := sys.modules.get("tempfile"):
        tempfile.tempdir = None  # type: ignore[attr-defined]
    if multiprocessing := sys.modules.get("multiprocessing.process"):
        multiprocessing.current_process().authkey = os.urandom(32)


def run_to_end(action: Callable[[], object], origin: Origin) -> None:
    """Runs `action`, and in each fork that it makes what that is to run."""
    while True:
        try:
            action()
            return
        except Forked as forked:
            child = forked
        # Only now, and without their traceback, have the parent's frames let go of its files.
        child.__traceback__ = child.__context__ = None
        action = child.begin(origin)
