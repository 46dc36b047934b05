"""Processes as seen from outside, whatever PID namespace they are in."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from vertex_local.processes.group import Group
from vertex_local.tests.support.platform import IS_PORTABLE

WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
# Programs that serve all tests, and end when pytest does.
OF_PYTEST = ("vertex_local.tests.support.forks", "multiprocessing.resource_tracker")


def is_running(pid: int) -> bool:
    """Return whether a process has this pid here, or in a PID namespace of this pytest worker's.

    The first pids of namespaces are all alike, so those of other workers' tests do not count.
    """
    return any(_has_pid(process, pid) for process in _live())


def supervisor_of(group: Group) -> int:
    """Return the pid of a group's supervisor, once it has started."""
    while group.supervisor is None:
        time.sleep(0.01)
    return group.supervisor.pid


def host_pid(pid: int) -> int:
    """Return the pid here of a process of this pytest worker's that has `pid` in its namespace."""
    found = [process.pid for process in _live() if _has_pid(process, pid)]
    assert len(found) == 1, f"processes with pid {pid}: {found}"
    return found[0]


def running(*words: str) -> list[int]:
    """Return the processes whose command has one of these words as an argument."""
    return [process.pid for process in _live() if not set(words).isdisjoint(_command(process))]


def await_end_of(*words: str, timeout_seconds: float = 10) -> None:
    """Wait until no process has one of these arguments."""
    deadline = time.monotonic() + timeout_seconds
    while left := running(*words):
        assert time.monotonic() < deadline, f"processes {left} with {words} still run"
        time.sleep(0.02)


def await_end_of_tests(temp_dir: str, *, timeout_seconds: float = 20) -> None:
    """Wait until this pytest worker's tests run no process; all have a TMPDIR below `temp_dir`."""
    deadline = time.monotonic() + timeout_seconds
    while left := [process for process in _live() if _is_of_tests(process, temp_dir)]:
        commands = [f"{process.pid}: {' '.join(_command(process))[:300]}" for process in left]
        assert time.monotonic() < deadline, f"processes of tests still run: {commands}"
        time.sleep(0.1)


def _is_of_tests(process: psutil.Process, temp_dir: str) -> bool:
    is_below = _environment(process).get("TMPDIR", "").startswith(temp_dir)
    if not is_below or process.pid == os.getpid() or not _is_of_this_worker(process):
        return False
    return not any(program in " ".join(_command(process)) for program in OF_PYTEST)


def _live() -> Iterator[psutil.Process]:
    """Yield each process that is no zombie."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                yield process


def _has_pid(process: psutil.Process, pid: int) -> bool:
    is_inside = process.pid != pid and pid in _inner_pids(process.pid)
    return process.pid == pid or (is_inside and _is_of_this_worker(process))


def _is_of_this_worker(process: psutil.Process) -> bool:
    worker = os.environ.get(WORKER_VARIABLE)
    return worker is None or _environment(process).get(WORKER_VARIABLE) == worker


def _inner_pids(pid: int) -> list[int]:
    """Return the pids of a process in PID namespaces."""
    with suppress(OSError):  # it has ended
        lines = [] if IS_PORTABLE else Path(f"/proc/{pid}/status").read_text().splitlines()
        return [
            int(text) for line in lines if line.startswith("NSpid:") for text in line.split()[2:]
        ]
    return []


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def _environment(process: psutil.Process) -> dict[str, str]:
    with suppress(psutil.Error):
        return process.environ()
    return {}
