"""Children of this process: signals, waits and exit codes on any POSIX system."""

import os
import resource
import select
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass

STATE_FILE = "state.json"  # of a group of children, in its folder


@dataclass(frozen=True, kw_only=True)
class Exit:
    """End of a child: its exit code, or minus the signal that killed it, and what it has used."""

    pid: int
    code: int
    usage: dict[str, float]


def restore_default_signals() -> None:
    """Restore the default action of SIGHUP, SIGINT and SIGQUIT where they are ignored.

    A shell starts background jobs with SIGINT and SIGQUIT ignored, and nohup with SIGHUP; children
    inherit that. Processes of a group have their own sessions, which get no signals of a terminal:
    if they receive one of these signals, they must end as they do in a container.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


def await_report(pid: int, read_fd: int, *, timeout_seconds: float) -> str:
    """Return what a forked child writes once it has begun; kill and reap one that is too late.

    Closes `read_fd`.

    Raises:
        TimeoutError: The child was too late.
    """
    with os.fdopen(read_fd, "rb", buffering=0) as reports:
        if select.select([reports], [], [], timeout_seconds)[0]:
            return reports.read(4000).decode(errors="replace")
    end_child(pid)
    raise TimeoutError(f"a forked process had not begun after {timeout_seconds:.0f} s")


def end_child(pid: int) -> None:
    """Kill and reap a child."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def open_wake_fd() -> int:
    """Return a file descriptor that becomes readable on a signal, such as the end of a child."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read_fd


def reap(pid: int) -> int:
    """Reap a child that has ended; return its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def exit_of(pid: int, status: int, usage: resource.struct_rusage) -> Exit:
    """Return the exit of a child from what wait4(2) returned."""
    unit = 1 if sys.platform == "darwin" else 1024
    return Exit(
        pid=pid,
        code=os.waitstatus_to_exitcode(status),
        usage={
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
            "peak_memory_bytes": usage.ru_maxrss * unit,
        },
    )


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group of a child that is not reaped yet."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def signal_name(number: int) -> str:
    """Return the name of a signal: `SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
