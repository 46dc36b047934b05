"""Usage sampler of a group: process trees, or control groups of containers."""

from collections.abc import Sequence
from pathlib import Path

from vertex_local.processes.child import Replica
from vertex_local.processes.usage.curve import CurveWriter, Readings
from vertex_local.processes.usage.meters import ProcessTrees, Reading, read_container


class Sampler:
    """Samples the usage of replicas into a file of the group's folder (`curve`)."""

    def __init__(self, folder: Path, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        self._trees = ProcessTrees()
        self._curve = CurveWriter(folder, [replica.name for replica in replicas])

    def sample(self) -> None:
        """Take a sample if one is due."""
        self._curve.sample(self._read)

    def _read(self) -> Readings:
        alive = [replica for replica in self._replicas if replica.is_alive]
        trees = self._trees.read([r.pid for r in alive if r.pid and not r.container])
        return {
            replica.name: _contained(replica) if replica.container else trees.get(replica.pid or 0)
            for replica in alive
        }


def _contained(replica: Replica) -> Reading | None:
    try:
        container_id = replica.container_id_path.read_text().strip()
    except OSError:  # not started yet
        return None
    return read_container(container_id) if container_id.isalnum() else None
