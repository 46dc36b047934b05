"""Tasks of earlier runs, whose outputs a run may take, and those that this machine's cache has."""

import datetime
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import (
    details_by_name,
    inputs_of,
    parameters_in,
    seconds_of,
    tasks_in,
)
from pipelines.resources.kinds import RUN
from pipelines.runs.removal.files import is_dangling, read_entry, step_cache
from trainer import Json
from vertex_local.rules.values import CODE, TaskValues

SUCCEEDED, CACHED = "SUCCEEDED", "SKIPPED"  # states of Vertex AI


@dataclass(frozen=True, kw_only=True)
class EarlierTask:
    """A task of an earlier run that has succeeded, or took the outputs of a still earlier one.

    `component` has the types of its inputs and outputs, `container` what it executed.
    """

    job: Json
    detail: Json
    component: Json
    container: Json

    @property
    def run(self) -> str:
        """The name of the run."""
        return ResourceName.from_name(self.job["name"]).id

    @property
    def moment(self) -> datetime.datetime:
        """The creation of the run."""
        return datetime.datetime.fromisoformat(self.job["createTime"])

    @property
    def is_over(self) -> bool:
        """True if the run has ended."""
        return RUN.is_final(self.job)

    @property
    def is_cached(self) -> bool:
        """True if it took the outputs of a still earlier task."""
        return bool(self.detail["state"] == CACHED)

    @property
    def seconds(self) -> float:
        """Its duration."""
        return seconds_of(self.detail)

    @property
    def inputs(self) -> TaskValues:
        """Its inputs, with the defaults of parameters."""
        return TaskValues(inputs_of(self.detail), _uris(self.detail.get("inputs", {})))

    @property
    def outputs(self) -> TaskValues:
        """Its outputs."""
        artifacts = _uris(self.detail.get("outputs", {}))
        return TaskValues(parameters_in(self.detail, "output:"), artifacts)


class EarlierTasks:
    """Tasks of earlier runs, newest first; runs are read when they are needed.

    `is_reusable` returns whether the outputs of a task are still in the cache.
    """

    def __init__(
        self, jobs: Iterable[Json], *, is_reusable: Callable[[EarlierTask], bool] = lambda _: True
    ) -> None:
        self._jobs = iter(jobs)
        self.is_reusable = is_reusable

    def of(self, task: str) -> Iterator[EarlierTask]:
        """Yield the tasks of a name that have succeeded."""
        self._jobs, jobs = itertools.tee(self._jobs)  # which keeps those that were read
        for job in jobs:
            detail = details_by_name(job).get(task, {})
            spec = job.get("pipelineSpec", {})
            name = component_names(spec).get(task)
            if name and detail.get("state") in (SUCCEEDED, CACHED):
                component = spec["components"][name]
                yield EarlierTask(
                    job=job,
                    detail=detail,
                    component=component,
                    container=container_of(spec, component),
                )


def component_names(spec: Json) -> dict[str, str]:
    """Return the name of the component of each task of a compiled pipeline, nested ones too."""
    return {name: task["componentRef"]["name"] for name, task in tasks_in(spec)}


def container_of(spec: Json, component: Json) -> Json:
    """Return what a component executes: image, command, arguments and environment."""
    executors = spec.get("deploymentSpec", {}).get("executors", {})
    container = executors.get(component.get("executorLabel"), {}).get("container", {})
    return {name: container[name] for name in CODE if name in container}


def _uris(values: Json) -> dict[str, tuple[str, ...]]:
    def uri(artifact: Json) -> Any:
        return artifact.get("uri", "")

    return {name: tuple(map(uri, value.get("artifacts", ()))) for name, value in values.items()}


class LocalCache:
    """The step cache of this machine, read once, when a task is looked up."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._claimed: list[TaskValues] = []

    def has(self, task: EarlierTask) -> bool:
        """Return whether an entry has the outputs of a task, their files exist, and are free.

        An unfinished run claims the folder in which it trains. Tasks are looked up newest first.
        """
        outputs = task.outputs
        entries = [entry for known, entry in self._entries if known == outputs]
        pending = [path for entry in entries for path in entry["pending"]]
        if not task.is_over and not all(map(os.path.exists, pending)):
            self._claimed.append(outputs)
        return outputs not in self._claimed and not all(map(is_dangling, entries))

    @functools.cached_property
    def _entries(self) -> list[tuple[TaskValues, Json]]:
        entries = map(read_entry, step_cache(self._state_dir).glob("*.json"))
        return [(outputs, entry) for entry in entries for outputs in _outputs_of(entry)]


def _outputs_of(entry: Json) -> Iterator[TaskValues]:
    """Yield the outputs of an entry; none of one that is damaged, which the service drops."""
    try:
        parameters, artifacts = entry["outputs"]["parameters"], entry["outputs"]["artifacts"]
        if "pending" in entry:
            uris = _uris({name: {"artifacts": made} for name, made in artifacts.items()})
            yield TaskValues(parameters, uris)
    except (KeyError, TypeError, AttributeError):
        return
