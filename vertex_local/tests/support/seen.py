"""Processes as seen from outside, whatever PID namespace they are in."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
# Programs that serve all tests, and end when pytest does.
OF_PYTEST = ("vertex_local.tests.support.forks", "multiprocessing.resource_tracker")


def is_running(pid: int) -> bool:
    """Return whether a process has this pid here, or in a PID namespace of this pytest worker's.

    The first pids of namespaces are all alike, so those of other workers' tests do not count.
    """
    return any(_has_pid(folder, str(pid)) for folder in _live())


def host_pid(pid: int) -> int:
    """Return the pid here of a process of this pytest worker's that has `pid` in its namespace."""
    found = [int(folder.name) for folder in _live() if _has_pid(folder, str(pid))]
    assert len(found) == 1, f"processes with pid {pid}: {found}"
    return found[0]


def running(*words: str) -> list[int]:
    """Return the processes whose command has one of these words as an argument."""
    return [int(one.name) for one in _live() if not set(words).isdisjoint(_texts(one / "cmdline"))]


def marked(variable: str) -> list[int]:
    """Return the processes that were started with `NAME=VALUE` in their environment."""
    return [int(folder.name) for folder in _live() if variable in _texts(folder / "environ")]


def await_end_of(*words: str, timeout_seconds: float = 10) -> None:
    """Wait until no process has one of these arguments."""
    deadline = time.monotonic() + timeout_seconds
    while left := running(*words):
        assert time.monotonic() < deadline, f"processes {left} with {words} still run"
        time.sleep(0.02)


def await_end_of_tests(temp_dir: str, *, timeout_seconds: float = 20) -> None:
    """Wait until this pytest worker's tests run no process; all have a TMPDIR below `temp_dir`."""
    deadline = time.monotonic() + timeout_seconds
    while left := [one for one in _live() if _is_of_tests(one, temp_dir)]:
        commands = [f"{one.name}: {_command(one)}" for one in left]
        assert time.monotonic() < deadline, f"processes of tests still run: {commands}"
        time.sleep(0.1)


def _is_of_tests(folder: Path, temp_dir: str) -> bool:
    is_below = any(text.startswith(f"TMPDIR={temp_dir}") for text in _texts(folder / "environ"))
    if not is_below or folder.name == str(os.getpid()) or not _is_of_this_worker(folder):
        return False
    return not any(program in _command(folder) for program in OF_PYTEST)


def _command(folder: Path) -> str:
    return " ".join(_texts(folder / "cmdline"))[:300]


def _live() -> Iterator[Path]:
    """Yield the /proc folder of each process that is no zombie."""
    for folder in Path("/proc").glob("[0-9]*"):
        if _status(folder).get("State", "Z")[0] not in "ZX":
            yield folder


def _has_pid(folder: Path, pid: str) -> bool:
    here, *inside = _ids(folder) or [""]
    return here == pid or (pid in inside and _is_of_this_worker(folder))


def _is_of_this_worker(folder: Path) -> bool:
    worker = os.environ.get(WORKER_VARIABLE)
    return worker is None or f"{WORKER_VARIABLE}={worker}" in _texts(folder / "environ")


def _ids(folder: Path) -> list[str]:
    return _status(folder).get("NSpid", "").split()


def _status(folder: Path) -> dict[str, str]:
    with suppress(OSError):  # it has ended
        lines = (folder / "status").read_text(errors="replace").splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {}


def _texts(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(errors="replace").split("\0")
    return []
