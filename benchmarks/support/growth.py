"""Costs of commands at two sizes of a dimension: CPU seconds and memory of all their processes."""

import ctypes
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.5
TIMEOUT_SECONDS = 3600
_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Cost:
    """Seconds (CPU seconds of a command) and the largest sum of PSS in megabytes, 0 if unknown."""

    seconds: float
    megabytes: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A dimension whose cost must not grow faster than its work.

    Attributes:
        name: what is counted, such as "numeric columns".
        sizes: the small and the large size of `make bench`.
        full_sizes: those of `--full`.
        measure: returns the cost of each part at a size; gets an empty folder.
        constant: the parts whose cost must be the same at both sizes.
    """

    name: str
    sizes: tuple[int, int]
    full_sizes: tuple[int, int]
    measure: Callable[[int, Path], Mapping[str, Cost]]
    constant: Sequence[str] = ()


def cost_of(*commands: Sequence[str], folder: Path) -> Cost:
    """Return the cost of commands, one after the other, with all the processes that they start.

    The last command must end what keeps running, such as the service.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)  # to be told of daemons' CPU time, too
    before, peak, ended = _child_seconds(), [0.0], threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], _children_megabytes())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        for command in commands:
            options = {"cwd": folder, "stdin": subprocess.DEVNULL, "timeout": TIMEOUT_SECONDS}
            done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
            if done.returncode:
                sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        with suppress(ChildProcessError):
            while True:
                os.wait()
    finally:
        ended.set()
        sampler.join()
    return Cost(_child_seconds() - before, peak[0])


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children_megabytes() -> float:
    total = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total / 1e6
