"""CPU seconds and memory, up to now, of process trees and of containers."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MICROSECONDS, _NANOSECONDS = 1e6, 1e9
ZOMBIE = "Z"
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Reading:
    """What has been used until now, and what is taken now."""

    cpu_seconds: float
    memory_bytes: int

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(self.cpu_seconds + other.cpu_seconds, self.memory_bytes + other.memory_bytes)


class ProcessTrees:
    """Meter of processes together with all that they have started.

    A process belongs to the tree of its session, or of its parent when it is first seen. Its file
    in /proc is read once to find that out; after that only those of the trees are read. Memory that
    processes of a tree share counts once for each of them.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        # Stays the /proc of this PID namespace, also when another one is mounted over it.
        self._proc = os.open(proc, os.O_RDONLY | os.O_DIRECTORY)
        self._roots: frozenset[int] = frozenset()
        self._root_of: dict[int, int] = {}

    def read(self, roots: Collection[int]) -> dict[int, Reading]:
        """The readings of the trees of these pids; one that has ended is left out."""
        if self._roots != (now := frozenset(roots)):
            self._roots = now
            self._root_of = {pid: root for pid, root in self._root_of.items() if root in now}
        self._sort_in()
        found: dict[int, Reading] = {}
        for pid, root in self._root_of.items():
            if root and (fields := self._stat(pid)) and fields[0] != ZOMBIE:
                ticks = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime: proc(5)
                reading = Reading(ticks / _TICKS_PER_SECOND, int(fields[21]) * _PAGE_BYTES)
                found[root] = found[root] + reading if root in found else reading
        return found

    def close(self) -> None:
        """Closes /proc."""
        os.close(self._proc)

    def _sort_in(self) -> None:
        """Finds the trees of new processes; forgets those that have ended."""
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        for pid in self._root_of.keys() - pids:
            del self._root_of[pid]
        new = {pid: self._stat(pid) for pid in pids - self._root_of.keys()}
        # The parent is sorted in first; a cycle of parents there is none.
        for pid in new:
            self._sort_in_one(pid, new)

    def _sort_in_one(self, pid: int, new: dict[int, list[str]]) -> int:
        if pid not in self._root_of:
            fields = new.get(pid)
            if not fields:
                return 0
            parent, session = int(fields[1]), int(fields[3])
            own = [one for one in (pid, session) if one in self._roots]
            self._root_of[pid] = own[0] if own else self._sort_in_one(parent, new)
        return self._root_of[pid]

    def _stat(self, pid: int) -> list[str]:
        """The fields of /proc/PID/stat from the third on: state, ppid, pgrp, session and so on."""
        try:
            fd = os.open(f"{pid}/stat", os.O_RDONLY, dir_fd=self._proc)
        except OSError:
            return []
        try:
            return os.read(fd, 4096).rpartition(b")")[2].decode().split()
        except OSError:  # it ended meanwhile
            return []
        finally:
            os.close(fd)


def read_container(container_id: str, *, root: Path = CGROUPS) -> Reading | None:
    """The reading of a container's control group; None if it is not to be found here."""
    return _read_v2(container_id, root) or _read_v1(container_id, root)


def _read_v2(container_id: str, root: Path) -> Reading | None:
    patterns = (
        f"system.slice/docker-{container_id}.scope",
        f"docker/{container_id}",
        f"user.slice/user-*.slice/user@*.service/*.slice/docker-{container_id}.scope",
    )
    for folder in (path for pattern in patterns for path in root.glob(pattern)):
        try:
            cpu = _fields(folder / "cpu.stat")["usage_usec"] / _MICROSECONDS
            cache = _fields(folder / "memory.stat")["inactive_file"]  # as `docker stats` does
            return Reading(cpu, max(0, int((folder / "memory.current").read_text()) - cache))
        except (OSError, KeyError, ValueError):
            continue
    return None


def _read_v1(container_id: str, root: Path) -> Reading | None:
    cpu, memory = (root / kind / "docker" / container_id for kind in ("cpuacct", "memory"))
    try:
        seconds = int((cpu / "cpuacct.usage").read_text()) / _NANOSECONDS
        cache = _fields(memory / "memory.stat")["total_inactive_file"]
        return Reading(seconds, max(0, int((memory / "memory.usage_in_bytes").read_text()) - cache))
    except (OSError, KeyError, ValueError):
        return None


def _fields(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in map(str.split, path.read_text().splitlines())}
