"""Logs of a run's tasks. Vertex AI runs each task as a custom job of its own."""

from collections.abc import Callable, Iterator

from components.shared.vertex.api import VertexApi
from components.shared.vertex.task_details import leaf_tasks
from pipelines.errors import ResourceError
from pipelines.jobs.log import LogReader, follow_logs, line_of, message_of
from pipelines.resources.kinds import RUN
from pipelines.resources.names import short_name
from pipelines.runs.view import TRAINING_TASK, training_job
from trainer import Json
from trainer.errors import did_you_mean

Label = tuple[str, Callable[[Json], str]]  # a task's name, and the form of its job's lines


def run_log_lines(
    api: VertexApi, run: str, *, task: str | None = None, is_followed: bool = False
) -> Iterator[str]:
    """Yield the log lines of a run's tasks, or of one, each with its task's name in front.

    The task that trains has the log of its job, too, with the replicas' names.

    Raises:
        ResourceError: the run has no such task.
    """
    readers: dict[str, LogReader] = {}

    def readers_of(job: Json) -> Iterator[tuple[Label, LogReader]]:
        _check_task(job, task)
        for name, job_id in _task_jobs(job):
            if task in (None, name):
                yield (name, message_of), readers.setdefault(job_id, LogReader(api, job_id))
            if (
                name == TRAINING_TASK
                and task in (None, name)
                and (job_id := training_job(api, run))
            ):
                yield (name, line_of), readers.setdefault(job_id, LogReader(api, job_id))

    entries = follow_logs(api, RUN, run, readers_of=readers_of, is_followed=is_followed)
    for (name, text_of), entry in entries:
        yield f"{name}  {text_of(entry)}"


def _task_jobs(job: Json) -> list[tuple[str, str]]:
    """Return the name and job id of each task of a run that has started."""
    names = leaf_tasks(job["pipelineSpec"])
    jobs = []
    for detail in job.get("jobDetail", {}).get("taskDetails", []):
        container = detail.get("executorDetail", {}).get("containerDetail", {})
        if detail.get("taskName") in names and container.get("mainJob"):
            jobs.append((names[detail["taskName"]], short_name(container["mainJob"])))
    return jobs


def _check_task(job: Json, task: str | None) -> None:
    names = leaf_tasks(job["pipelineSpec"]).values()
    if task is not None and task not in names:
        hint = did_you_mean(task, names)
        raise ResourceError(
            f"--task {task!r} is not a task of this run;{hint} its tasks are {', '.join(names)}"
        )
