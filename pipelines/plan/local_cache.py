"""Outputs of earlier tasks that this machine's step cache still has."""

import functools
from pathlib import Path

from pipelines.plan.earlier_tasks import EarlierTask
from pipelines.runs.removal.cache import read_entry, step_cache
from trainer import Json


class LocalCache:
    """The step cache of this machine, read once, when a task is looked up."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def has(self, task: EarlierTask) -> bool:
        """Return whether an entry has the outputs of a task, and their files exist.

        An output that a later task writes, as the folder of the model, may be pending.
        """
        wanted = (task.output_parameters, task.output_artifacts)
        return any(
            (entry["outputs"]["parameters"], _uris(entry)) == wanted and _has_files(entry)
            for entry in self._entries
        )

    @functools.cached_property
    def _entries(self) -> list[Json]:
        entries = map(read_entry, step_cache(self._state_dir).glob("*.json"))
        return [entry for entry in entries if "outputs" in entry]


def _uris(entry: Json) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(artifact["uri"] for artifact in artifacts)
        for name, artifacts in entry["outputs"]["artifacts"].items()
    }


def _has_files(entry: Json) -> bool:
    local = [Path(uri) for uris in _uris(entry).values() for uri in uris if uri.startswith("/")]
    return all(
        path.parent.is_dir() if str(path) in entry["pending"] else path.exists() for path in local
    )
