"""Outputs of earlier tasks that this machine's step cache still has."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.plan.earlier_tasks import EarlierTask
from pipelines.runs.removal.cache import read_entry, step_cache
from trainer import Json


class Outputs(NamedTuple):
    """Outputs in an entry: parameters, URIs of artifacts by name, and those that are pending."""

    parameters: Json
    artifacts: dict[str, tuple[str, ...]]
    pending: Any

    def exist(self) -> bool:
        """Return whether the files exist; of one that a later task writes, its folder."""
        uris = [uri for uris in self.artifacts.values() for uri in uris if uri.startswith("/")]
        return all(
            Path(uri).parent.is_dir() if uri in self.pending else Path(uri).exists() for uri in uris
        )


class LocalCache:
    """The step cache of this machine, read once, when a task is looked up."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def has(self, task: EarlierTask) -> bool:
        """Return whether an entry has the outputs of a task, and their files exist."""
        wanted = (task.output_parameters, task.output_artifacts)
        return any(outputs[:2] == wanted and outputs.exist() for outputs in self._outputs)

    @functools.cached_property
    def _outputs(self) -> list[Outputs]:
        return [
            outputs
            for entry in step_cache(self._state_dir).glob("*.json")
            for outputs in _outputs_of(read_entry(entry))
        ]


def _outputs_of(entry: Json) -> Iterator[Outputs]:
    """Yield the outputs of an entry; none of one that is damaged, which the service drops."""
    try:
        parameters, artifacts = entry["outputs"]["parameters"], entry["outputs"]["artifacts"]
        uris = {
            key: tuple(str(artifact["uri"]) for artifact in values)
            for key, values in artifacts.items()
        }
        yield Outputs(parameters, uris, entry["pending"])
    except (KeyError, TypeError, AttributeError):
        return
