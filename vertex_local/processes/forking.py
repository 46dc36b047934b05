"""Forks that start like new processes, without the files, handlers and threads of their parent.

The warm process (`warm_process.py`) forks supervisors, which fork replicas. A child leaves its
parent's stack by the exception `Forked`, so that Python closes its copies of the parent's files;
`run_to_end`, at the bottom of that stack, catches it.
"""

import atexit
import ctypes
import gc
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from vertex_local.machine import children, linux
from vertex_local.machine.files import log_line

FIRST_FREE_FD = 3
READY_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class ForkSpec:
    """Program and environment of a fork, which ends when `run` returns.

    Of its file descriptors `output` becomes stdout and stderr; no Python object may own those that
    are `kept` open. Without `env` and `cwd` it has its parent's.
    """

    run: Callable[[], object]
    stdin: int
    output: int
    kept: tuple[int, ...] = ()
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    dies_with_parent: bool = False


@dataclass(frozen=True)
class Baseline:
    """Imported modules, and the files and signal handlers of theirs; forks keep them."""

    fds: frozenset[int]
    handlers: Mapping[signal.Signals, Any]
    modules: frozenset[str]

    @classmethod
    def capture(cls, *, without: set[int]) -> "Baseline":
        """Return this process's baseline, after its imports; `without` are files of our own."""
        handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        return cls(frozenset(open_fds() - without), handlers, frozenset(sys.modules))


class Forked(BaseException):
    """Raised in the child of `fork`, to leave the stack that it has from its parent."""

    def __init__(self, spec: ForkSpec, *, parent: int, report_fd: int) -> None:
        super().__init__("a forked process has not begun")
        self._spec, self._parent, self._report_fd = spec, parent, report_fd
        # The parent's frames may close the originals while the exception passes.
        self._stdin, self._output = os.dup(spec.stdin), os.dup(spec.output)

    def begin(self, baseline: Baseline) -> Callable[[], object]:
        """Reset the state inherited from the parent; return the function to run."""
        try:
            self._reset(baseline)
        except BaseException as error:
            os.write(self._report_fd, str(error).encode()[:4000])
            os._exit(1)
        os.close(self._report_fd)  # tells the parent that the child has begun
        return self._spec.run

    def _reset(self, baseline: Baseline) -> None:
        spec = self._spec
        os.setsid()
        if spec.dies_with_parent:
            linux.die_with(self._parent)
        os.dup2(self._stdin, 0)
        os.dup2(self._output, 1)
        os.dup2(self._output, 2)
        _close_all_but({*baseline.fds, *spec.kept, self._report_fd})
        for fd in spec.kept:
            os.set_inheritable(fd, False)
        _restore_handlers(baseline)
        if spec.cwd is not None:
            os.chdir(spec.cwd)
        if spec.env is not None:
            os.environ.clear()
            os.environ.update(spec.env)
        _reset_modules()


def fork(spec: ForkSpec) -> int:
    """Fork and return the child's pid once the child has begun; raise `Forked` in the child.

    This process must have one thread only.

    Raises:
        OSError: There is no child, or it could not begin and has been killed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    read_fd, write_fd = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(read_fd)
        os.close(write_fd)
        raise
    if not pid:
        os.close(read_fd)
        raise Forked(spec, parent=parent, report_fd=write_fd)  # signals are blocked until `begin`
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(write_fd)
    if problem := children.await_report(pid, read_fd, timeout_seconds=READY_TIMEOUT_SECONDS):
        children.end_child(pid)
        raise OSError(problem)
    return pid


def open_fds() -> set[int]:
    """Return the file descriptors that this process has open."""
    listed = {int(name) for name in os.listdir("/dev/fd")}
    return {fd for fd in listed if _is_open(fd)}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _close_all_but(kept: set[int]) -> None:
    for fd in open_fds() - kept:
        if fd >= FIRST_FREE_FD:
            os.close(fd)


def _restore_handlers(baseline: Baseline) -> None:
    signal.set_wakeup_fd(-1)
    for number, handler in baseline.handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reset_modules() -> None:
    """Reset the state that modules keep of the process that imported them."""
    time.tzset()
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    if tempfile := sys.modules.get("tempfile"):
        tempfile.tempdir = None  # type: ignore[attr-defined]
    if multiprocessing := sys.modules.get("multiprocessing.process"):
        multiprocessing.current_process().authkey = os.urandom(32)


def run_to_end(action: Callable[[], object], baseline: Baseline) -> None:
    """Run `action`; in each fork that it makes, run the function of the fork instead, and exit."""
    try:
        action()
        return
    except Forked as forked:
        child = forked
    while True:
        # The parent's frames release their files only here, once the traceback is dropped.
        child.__traceback__ = child.__context__ = None
        try:
            code = _exit_code(child.begin(baseline))
            break
        except Forked as forked:
            child = forked
    _exit(code, shared=baseline.modules)


def _exit_code(run: Callable[[], object]) -> int:
    """Run a program; return its exit code, after printing the error that ended it, if any."""
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        log_line(f"{end.code}")
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        return 0
    return 1


def _exit(code: int, *, shared: frozenset[str]) -> None:
    """Exit as an interpreter does, but without deallocating the modules shared with the parent.

    That would take 0.1 s and copy the pages that hold them: 0.2 s with TensorFlow.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if threading.active_count() > 1:  # only the interpreter can stop daemon threads
        kept = [sys.modules.pop(name) for name in shared & sys.modules.keys() - {"__main__"}]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        sys.exit(code)
    for stream in gc.get_objects():  # of this program only: its parent's are frozen
        if type(stream) in (io.TextIOWrapper, io.BufferedWriter):
            _flush(stream)
    own = takewhile(lambda name: name not in shared, reversed(sys.modules))
    for name in ["__main__", *own]:
        del sys.modules[name]
    gc.collect()
    _flush(sys.stdout)
    _flush(sys.stderr)
    os._exit(code & 0xFF)


def _flush(stream: Any) -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed, a full disk
        stream.flush()
