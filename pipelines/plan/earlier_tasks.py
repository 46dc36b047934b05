"""Tasks of earlier runs, whose outputs a run may take instead of running its own."""

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import details_by_name, inputs_of, outputs_of, seconds_of
from trainer import Json

SUCCEEDED, CACHED = "SUCCEEDED", "SKIPPED"  # states of Vertex AI


@dataclass(frozen=True, kw_only=True)
class EarlierTask:
    """A task of an earlier run that has succeeded, or took the outputs of a still earlier one.

    Attributes:
        job: the PipelineJob of the run, with its specification.
        detail: of the task.
        component: its component: the types of inputs and outputs.
        container: what it executed.
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
    def is_cached(self) -> bool:
        """Whether it took the outputs of a still earlier task."""
        return bool(self.detail["state"] == CACHED)

    @property
    def seconds(self) -> float:
        """Its duration."""
        return seconds_of(self.detail)

    @property
    def parameters(self) -> Json:
        """Its input parameters by name, with defaults."""
        return inputs_of(self.detail)

    @property
    def artifacts(self) -> dict[str, tuple[str, ...]]:
        """The URIs of its input artifacts by name."""
        return _uris(self.detail.get("inputs", {}))

    @property
    def output_artifacts(self) -> dict[str, tuple[str, ...]]:
        """The URIs of its output artifacts by name."""
        return _uris(self.detail.get("outputs", {}))

    @property
    def output_parameters(self) -> Json:
        """Its output parameters by name."""
        return {
            name: value
            for name, value in outputs_of(self.detail).items()
            if name not in self.output_artifacts
        }


class EarlierTasks:
    """Tasks of earlier runs, newest first; runs are read when they are needed.

    Args:
        jobs: PipelineJobs with specification and task details, newest first.
        is_reusable: Returns whether the outputs of a task are still in the cache.
    """

    def __init__(
        self, jobs: Iterable[Json], *, is_reusable: Callable[[EarlierTask], bool] = lambda _: True
    ) -> None:
        self._unread = iter(jobs)
        self._read: list[Json] = []
        self.is_reusable = is_reusable

    def of(self, task: str) -> Iterator[EarlierTask]:
        """Yield the tasks of a name that have succeeded."""
        for job in self._jobs():
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

    def _jobs(self) -> Iterator[Json]:
        yield from self._read
        for job in self._unread:
            self._read.append(job)
            yield job


def component_names(spec: Json) -> dict[str, str]:
    """Return the name of the component of each task of a compiled pipeline, nested ones too."""
    graphs = (spec.get("root", {}), *spec.get("components", {}).values())
    return {
        name: task["componentRef"]["name"]
        for graph in graphs
        for name, task in graph.get("dag", {}).get("tasks", {}).items()
    }


def container_of(spec: Json, component: Json) -> Json:
    """Return what a component executes: image, command, arguments and environment."""
    executors = spec.get("deploymentSpec", {}).get("executors", {})
    container = executors.get(component.get("executorLabel"), {}).get("container", {})
    return {
        name: container[name] for name in ("image", "command", "args", "env") if name in container
    }


def _uris(values: Json) -> dict[str, tuple[str, ...]]:
    def uri(artifact: Json) -> Any:
        return artifact.get("uri", "")

    return {name: tuple(map(uri, value.get("artifacts", ()))) for name, value in values.items()}
