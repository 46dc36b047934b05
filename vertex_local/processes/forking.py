"""Forks that start like new processes, without the files, handlers and threads of their parent.

The warm process (`warm_process.py`) forks supervisors, which fork replicas. A child runs its
program on top of the stack that it has from its parent, and never returns to that.
"""

import atexit
import gc
import io
import os
import signal
import site
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from vertex_local.machine import children, linux
from vertex_local.machine.files import log_line

FIRST_FREE_FD = 3
READY_TIMEOUT_SECONDS = 30.0
# Read when a module is imported, or when the interpreter starts.
READ_AT_IMPORT = (
    "ABSL_ CUDA_ GLIBC_ GOMP_ GRPC_ HOME JAX_ KERAS_ KMP_ LANG LC_ LD_ MALLOC_ MKL_ NPY_ NUMEXPR_ "
    "NVIDIA_ OMP_ OPENBLAS_ PROTOCOL_BUFFERS_ PYTHON TF_ TORCH_ XLA_"
)
# Exceptions: TensorFlow reads these when it is first used, and pip reads the last, of a layer.
READ_LATER = {"TF_CONFIG", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "PYTHONUSERBASE"}


@dataclass(frozen=True)
class Preloaded:
    """A process with its imported modules, whose state is that of each fork as it starts.

    Attributes:
        modules: Names of the modules.
        env: The environment that they were imported in.
        signatures: Time and size of each module's file, but of an installed package only
            its folder's, which an installation changes: to look at thousands of files takes long.
        fds: Open files of the modules.
        handlers: Handlers of signals.
    """

    modules: frozenset[str]
    env: dict[str, str]
    signatures: dict[str, tuple[int, int]]
    fds: frozenset[int]
    handlers: dict[signal.Signals, Any]

    @classmethod
    def capture(cls, *, without: set[int]) -> "Preloaded":
        """Return the state of this process; `without` are files of our own."""
        packages = site.getsitepackages()
        installed = tuple(f"{folder}/" for folder in (*packages, sysconfig.get_path("stdlib")))
        paths = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
        watched = [*packages, *(path for path in paths if not path.startswith(installed))]
        return cls(
            modules=frozenset(sys.modules),
            env=dict(os.environ),
            signatures=_signatures(watched),
            fds=frozenset(open_fds() - without),
            handlers={number: signal.getsignal(number) for number in signal.valid_signals()},
        )

    @property
    def is_current(self) -> bool:
        """True if the files of the modules have not changed."""
        return _signatures(self.signatures) == self.signatures

    def can_run(self, env: Mapping[str, str], cwd: str | None) -> bool:
        """Return whether a new interpreter with this environment and folder imports the same."""
        starts = tuple(READ_AT_IMPORT.split())
        variables = {name for name in self.env.keys() | env.keys() if name.startswith(starts)}
        if any(self.env.get(name) != env.get(name) for name in variables - READ_LATER):
            return False
        names = {name.partition(".")[0] for name in self.modules}
        try:
            entries = list(os.scandir(os.path.abspath(cwd or os.getcwd())))
        except OSError:
            return False
        return not any(
            _shadows(entry) for entry in entries if entry.name.partition(".")[0] in names
        )


# Set in a warm process, and so in its forks.
PRELOADED: Preloaded | None = None


@dataclass(frozen=True, kw_only=True)
class ForkSpec:
    """Program and environment of a fork, which ends when `run` returns.

    Of its file descriptors `output` becomes stdout and stderr; those that are `kept` stay open.
    Without `env` and `cwd` it has its parent's.
    """

    run: Callable[[], object]
    stdin: int
    output: int
    kept: tuple[int, ...] = ()
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    dies_with_parent: bool = False


def fork(spec: ForkSpec) -> int:
    """Fork; return the child's pid once its program has begun.

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
        if not pid:
            become(spec, parent=parent, report_fd=write_fd)
    except OSError:
        os.close(read_fd)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(write_fd)
    if problem := children.await_report(pid, read_fd, timeout_seconds=READY_TIMEOUT_SECONDS):
        children.end_child(pid)
        raise OSError(problem)
    return pid


def become(spec: ForkSpec, *, parent: int, report_fd: int) -> NoReturn:
    """Run the program in this process, a fork of `parent`, and exit.

    Closes `report_fd` when the program begins; what prevents that is written to it.
    """
    assert PRELOADED
    try:
        _reset(spec, PRELOADED, parent=parent, report_fd=report_fd)
    except BaseException as error:
        os.write(report_fd, str(error).encode()[:4000])
        os._exit(1)
    code = -signal.SIGINT
    try:
        os.close(report_fd)
        code = _exit_code(spec.run)
        _clean_up(PRELOADED.modules)
    finally:  # whatever a signal's handler raises: this process must not go on as its parent
        _flush(sys.stdout)
        _flush(sys.stderr)
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code & 0xFF)


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


def _signatures(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    signatures = {}
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            signatures[path] = (status.st_mtime_ns, status.st_size)
    return signatures


def _shadows(entry: "os.DirEntry[str]") -> bool:
    """Return whether a new interpreter in this folder would import this file instead."""
    name, _, ending = entry.name.partition(".")
    if ending:
        is_module = ending.endswith(("py", "pyc", "so"))
    else:
        is_module = os.path.exists(os.path.join(entry.path, "__init__.py"))
    path = getattr(sys.modules.get(name), "__file__", None) or ""
    return is_module and not path.startswith(entry.path)


def _reset(spec: ForkSpec, preloaded: Preloaded, *, parent: int, report_fd: int) -> None:
    """Reset what this process has of its parent, and last the signals, which are blocked."""
    os.setsid()
    if spec.dies_with_parent:
        linux.die_with(parent)
    os.dup2(spec.stdin, 0)
    os.dup2(spec.output, 1)
    os.dup2(spec.output, 2)
    for fd in open_fds() - {*preloaded.fds, *spec.kept, report_fd}:
        if fd >= FIRST_FREE_FD:
            os.close(fd)
    for fd in spec.kept:
        os.set_inheritable(fd, False)
    if spec.cwd is not None:
        os.chdir(spec.cwd)
    if spec.env is not None:
        os.environ.clear()
        os.environ.update(spec.env)
    _reset_modules()
    # Objects of the parent's frames, such as those of the files just closed, stay as they are.
    gc.freeze()
    gc.enable()
    signal.set_wakeup_fd(-1)
    for number, handler in preloaded.handlers.items():
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


def _exit_code(run: Callable[[], object]) -> int:
    """Run a program; return its exit code, after printing the error that ended it, if any.

    Like an interpreter's it is minus SIGINT for a KeyboardInterrupt.
    """
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        log_line(f"{end.code}")
        return 1
    except BaseException as error:
        traceback = error.__traceback__
        while traceback and "<frozen runpy>" not in traceback.tb_frame.f_code.co_filename:
            traceback = traceback.tb_next  # frames of ours
        error.__traceback__ = traceback or error.__traceback__
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _clean_up(shared: frozenset[str]) -> None:
    """Clean up as an interpreter does at its exit, but for the modules shared with the parent.

    To deallocate those would take 0.1 s and copy the pages that hold them: 0.2 s with TensorFlow.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in gc.get_objects():  # of this program only: its parent's are frozen
        if type(stream) in (io.TextIOWrapper, io.BufferedWriter):
            _flush(stream)
    if threading.active_count() == 1:  # a daemon thread may still use the modules
        for name in ["__main__", *(name for name in reversed(sys.modules) if name not in shared)]:
            del sys.modules[name]
        gc.collect()


def _flush(stream: Any) -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed, a full disk
        stream.flush()
