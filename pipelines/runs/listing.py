"""Pipeline runs, their tasks and what these wrote, by Vertex AI's REST API."""

import time
from collections.abc import Iterator
from typing import Any

from components.run_summary.summary import USER_ERROR_PREFIX
from components.vertex.api import VertexApi
from pipelines.jobs.log import message_of
from pipelines.kinds import Kind
from pipelines.resources import ResourceError, Table, short_name
from pipelines.runs.view import FINAL_STATES, leaf_tasks, view_of
from trainer.json_types import Json
from trainer.suggest import did_you_mean

STATE_PREFIX = "PIPELINE_STATE_"
RUN = Kind(
    noun="run",
    collection="pipelineJobs",
    state_prefix=STATE_PREFIX,
    final_states=frozenset(state.removeprefix(STATE_PREFIX) for state in FINAL_STATES),
)
POLL_SECONDS = 0.5


def tasks_table(job: Json) -> Table:
    """The run's tasks in the order of the graph."""
    view = view_of(job, task_names=leaf_tasks(job["pipelineSpec"]))
    rows: list[tuple[str, ...]] = [
        (
            task.name,
            task.state,
            f"{task.seconds:.1f}",
            "cached" if task.is_cached else in_a_line(task.error),
        )
        for task in view.tasks
    ]
    return Table(("TASK", "STATE", "SECONDS", ""), rows)


def in_a_line(error: str) -> str:
    """Return the line of an error that says most: the last of a step's own words."""
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[-1].strip().removeprefix(USER_ERROR_PREFIX) if lines else ""


def log_lines(
    api: VertexApi, run: str, *, task: str | None = None, is_followed: bool = False
) -> Iterator[str]:
    """Lines that a run's tasks wrote, the task's name in front; followed: until the run's end.

    Raises:
        ResourceError: the run has no such task; names those it has.
    """
    readers: dict[str, TaskLog] = {}
    while True:
        job = RUN.get(api, run)  # asked first, so that the last lines are read
        _check_task(job, task)
        for name, job_id in task_jobs(job):
            if task in (None, name):
                reader = readers.setdefault(job_id, TaskLog(api, job_id))
                yield from (f"{name}  {line}" for line in reader.new_lines())
        if RUN.is_final(job) or not is_followed:
            return
        time.sleep(POLL_SECONDS)


def task_jobs(job: Json) -> list[tuple[str, str]]:
    """Name and job id of each task that has started: a task runs as a custom job of its own."""
    names = leaf_tasks(job["pipelineSpec"])
    found = []
    for detail in job.get("jobDetail", {}).get("taskDetails", []):
        container = detail.get("executorDetail", {}).get("containerDetail", {})
        if detail.get("taskName") in names and container.get("mainJob"):
            found.append((names[detail["taskName"]], short_name(container["mainJob"])))
    return found


class TaskLog:
    """The log of one task, read on as it grows."""

    def __init__(self, api: VertexApi, job_id: str) -> None:
        self._api = api
        self._query = f'resource.type="ml_job" AND resource.labels.job_id="{job_id}"'
        self._seen: set[Any] = set()
        self._newest = ""

    def new_lines(self) -> Iterator[str]:
        """What was written since the last call."""
        since = f' AND timestamp>="{self._newest}"' if self._newest else ""
        page_token = ""
        while True:
            entries, next_token = self._api.log_entries(self._query + since, page_token=page_token)
            for entry in entries:
                self._newest = max(self._newest, str(entry.get("timestamp", "")))
                if entry.get("insertId") not in self._seen:
                    self._seen.add(entry.get("insertId"))
                    yield message_of(entry)
            if not entries or not next_token or next_token == page_token:
                return
            page_token = next_token


def _check_task(job: Json, task: str | None) -> None:
    names = leaf_tasks(job["pipelineSpec"]).values()
    if task is not None and task not in names:
        hint = did_you_mean(task, names)
        raise ResourceError(
            f"--task {task!r} is not a task of this run;{hint} it has {', '.join(names)}"
        )
