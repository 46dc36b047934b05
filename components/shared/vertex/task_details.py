"""Tasks of a pipeline run and their outputs, read from its PipelineJob."""

import datetime
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

# Metadata key of the endpoint artifact of `ensure_endpoint`; its value is `yes` or `no`.
SERVED_BEFORE = "servedBefore"
NOT_RUN = "NOT_RUN"
TASK_STATES = {"SKIPPED": "SUCCEEDED", "NOT_TRIGGERED": NOT_RUN}  # SKIPPED: from the cache
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TaskView:
    """State of a pipeline task: PENDING, RUNNING, SUCCEEDED, FAILED or NOT_RUN."""

    name: str
    state: str = NOT_RUN
    seconds: float = 0.0
    is_cached: bool = False
    error: str = ""
    note: str = ""


def details_in(job: Json) -> list[Json]:
    """Return the details of the tasks of a PipelineJob, as far as they have started."""
    details: list[Json] = job.get("jobDetail", {}).get("taskDetails", [])
    return details


def details_by_name(job: Json) -> dict[str, Json]:
    """Return the latest detail of each task of a PipelineJob, by the task's name in the spec."""
    return {detail["taskName"]: detail for detail in details_in(job)}


def error_of(resource: Json) -> str:
    """Return the message of the error of a job, a run or a task; "" without one."""
    return str(resource.get("error", {}).get("message", ""))


def tasks_in(spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield the tasks of all graphs of a compiled pipeline, each with its name."""
    for graph in (spec.get("root", {}), *spec.get("components", {}).values()):
        yield from graph.get("dag", {}).get("tasks", {}).items()


def images_in(spec: Json) -> dict[str, str]:
    """Return the images of a compiled pipeline, each with the name of its first container."""
    executors = spec.get("deploymentSpec", {}).get("executors", {})
    images: dict[str, str] = {}
    for name, executor in executors.items():
        if "container" in executor:
            images.setdefault(str(executor["container"].get("image", "")), name)
    return images


def inputs_of(detail: Json) -> Json:
    """Return the input parameters of a task by name, with defaults."""
    return parameters_in(detail, "input:")


def outputs_of(detail: Json) -> Json:
    """Return the outputs of a task by name: `NAME.uri` of an artifact, `NAME.KEY` of metadata."""
    outputs = parameters_in(detail, "output:")
    for name, artifacts in detail.get("outputs", {}).items():
        for artifact in artifacts.get("artifacts", []):
            facts = {"uri": artifact.get("uri", ""), **artifact.get("metadata", {})}
            outputs |= {f"{name}.{key}": value for key, value in facts.items()}
    return outputs


def below(outputs: Json, name: str) -> Json:
    """Return the outputs whose names begin with a name and a dot, without these."""
    prefix = f"{name}."
    return {
        key.removeprefix(prefix): value for key, value in outputs.items() if key.startswith(prefix)
    }


def parameters_in(detail: Json, prefix: str) -> Json:
    """Return the parameters of a task by name: `input:` or `output:`."""
    metadata = detail.get("execution", {}).get("metadata", {})
    return {key.removeprefix(prefix): metadata[key] for key in metadata if key.startswith(prefix)}


def outputs_by_task(job: Json) -> Json:
    """Return the outputs of all tasks as `outputs_of`, by `TASK.NAME` with display names."""
    details = details_by_name(job)
    return {
        f"{task}.{key}": value
        for name, task in leaf_tasks(job).items()
        for key, value in outputs_of(details.get(name, {})).items()
    }


def task_views(job: Json) -> tuple[TaskView, ...]:
    """Return the states of the tasks, in the order of `leaf_tasks` and with display names."""
    details = details_by_name(job)
    return tuple(
        _task_view(title, details.get(name, {})) for name, title in leaf_tasks(job).items()
    )


def leaf_tasks(job: Json) -> dict[str, str]:
    """Return the display names of all tasks of a run, nested ones too, by name; {} if unknown."""
    names: dict[str, str] = {}
    spec: Json = job.get("pipelineSpec", {})

    def walk(dag: Json) -> None:
        for name, task in in_order(dag["tasks"]):
            component = spec["components"][task["componentRef"]["name"]]
            if "dag" in component:
                walk(component["dag"])
            else:
                names[name] = task.get("taskInfo", {}).get("name", name)

    if spec:
        walk(spec["root"]["dag"])
    return names


def _task_view(name: str, detail: Json) -> TaskView:
    state = str(detail.get("state", NOT_RUN))
    return TaskView(
        name=name,
        state=TASK_STATES.get(state, state),
        seconds=seconds_of(detail),
        is_cached=state == "SKIPPED",
        error=error_of(detail),
        note=detail.get("execution", {}).get("metadata", {}).get("note", ""),
    )


def seconds_of(detail: Json) -> float:
    """Return the duration of a task, 0 if it has not ended."""
    if "startTime" not in detail or "endTime" not in detail:
        return 0.0
    start, end = (
        datetime.datetime.fromisoformat(detail[key]).timestamp() for key in ("startTime", "endTime")
    )
    return round(end - start, 2)


def in_order(tasks: Json) -> list[tuple[str, Json]]:
    """Return tasks after those they depend on, else by name: a service returns them in any order.

    Of a group, the exit task comes last.
    """
    ordered: dict[str, Json] = {}
    while len(ordered) < len(tasks):
        for name, task in sorted(tasks.items()):
            if name not in ordered and set(task.get("dependentTasks", [])) <= set(ordered):
                ordered[name] = task
    return list(ordered.items())


def replicas_of(api: VertexApi, job_id: str) -> Json | None:
    """Return `replicas` and `warnings` of a job: {} before it has started, None on Vertex AI.

    Only the local service has this resource; Vertex AI returns 404.
    """
    return api.find(f"{api.parent}/customJobs/{job_id}/replicas")


def replicas_of_jobs(api: VertexApi, *, label: str) -> list[Json]:
    """Return `replicas` and `warnings` of each job that the filter `label` matches.

    An error is logged and the list is empty: a run must not fail, or lack its summary, over this.
    """
    try:
        jobs = api.list_resources("customJobs", filter=label)
        responses = [replicas_of(api, ResourceName.from_name(job["name"]).id) for job in jobs]
    except VertexError as error:
        logger.warning("the replicas of %s cannot be read: %s", label, error)
        return []
    return [replicas for replicas in responses if replicas]


def job_warnings(api: VertexApi, job_id: str) -> list[str]:
    """Return the warnings of a job, none on Vertex AI."""
    warnings: list[str] = (replicas_of(api, job_id) or {}).get("warnings", [])
    return warnings
