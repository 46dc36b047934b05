"""Processes as seen from outside, whatever PID namespace they are in."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def is_running(pid: int) -> bool:
    """Return whether a process has this pid here or in a PID namespace of its own."""
    return any(str(pid) in pids for pids, _ in _processes())


def running(*words: str) -> list[int]:
    """Return the processes whose command has one of these words as an argument."""
    return [int(pids[0]) for pids, command in _processes() if not set(words).isdisjoint(command)]


def await_end_of(*words: str, timeout_seconds: float = 10) -> None:
    """Wait until no process has one of these arguments."""
    deadline = time.monotonic() + timeout_seconds
    while left := running(*words):
        assert time.monotonic() < deadline, f"processes {left} with {words} still run"
        time.sleep(0.02)


def _processes() -> Iterator[tuple[list[str], list[str]]]:
    """Yield each process's pids, the one of here first, and its command; no zombies."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            lines = (folder / "status").read_text(errors="replace").splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            command = (folder / "cmdline").read_text(errors="replace").split("\0")
            if status["State"][0] not in "ZX":
                yield status["NSpid"].split(), command
