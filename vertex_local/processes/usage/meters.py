"""CPU seconds and memory of process trees."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from vertex_local.machine import linux

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ZOMBIE = "Z"


@dataclass(frozen=True)
class Reading:
    """CPU seconds used so far, and current memory."""

    cpu_seconds: float
    memory_bytes: int

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(self.cpu_seconds + other.cpu_seconds, self.memory_bytes + other.memory_bytes)


class ProcessTrees:
    """Meter of processes together with their descendants.

    A process belongs to the tree of its session, or else of the parent that it has when it is first
    seen. To find that out its file in /proc is read once; later only the files of members are read.
    Shared memory counts once for each process.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        # Keeps the /proc of this PID namespace when another one is mounted over it.
        self._proc = os.open(proc, os.O_RDONLY | os.O_DIRECTORY)
        self._roots: frozenset[int] = frozenset()
        self._root_of: dict[int, int] = {}

    def read(self, roots: Collection[int]) -> dict[int, Reading]:
        """Return the readings of the trees of these pids, without those that have ended."""
        if self._roots != (current := frozenset(roots)):
            self._roots = current
            self._root_of = {pid: root for pid, root in self._root_of.items() if root in current}
        self._update_roots()
        found: dict[int, Reading] = {}
        for pid, root in self._root_of.items():
            fields = linux.stat_fields(pid, proc_fd=self._proc) if root else []
            if fields and fields[0] != ZOMBIE:
                reading = Reading(linux.cpu_seconds(fields), int(fields[21]) * _PAGE_BYTES)
                found[root] = found[root] + reading if root in found else reading
        return found

    def close(self) -> None:
        """Close /proc."""
        os.close(self._proc)

    def _update_roots(self) -> None:
        """Find the trees of new processes; drop the processes that have ended."""
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        for pid in self._root_of.keys() - pids:
            del self._root_of[pid]
        new = {
            pid: linux.stat_fields(pid, proc_fd=self._proc) for pid in pids - self._root_of.keys()
        }
        for pid in new:
            self._find_root(pid, new)

    def _find_root(self, pid: int, new: dict[int, list[str]]) -> int:
        if pid not in self._root_of:
            fields = new.get(pid)
            if not fields:
                return 0
            parent, session = int(fields[1]), int(fields[3])
            own = [one for one in (pid, session) if one in self._roots]
            self._root_of[pid] = own[0] if own else self._find_root(parent, new)
        return self._root_of[pid]
