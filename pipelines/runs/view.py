"""Follows a pipeline run: what each task does now, until the run has ended."""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from components.labels import RUN_LABEL
from components.vertex.api import VertexApi, VertexError
from components.vertex.job_warnings import job_warnings
from components.vertex.resource_name import ResourceName
from components.vertex.task_details import NOT_RUN as NOT_RUN  # noqa: PLC0414 - taken from here
from components.vertex.task_details import TaskView, outputs_by_task, task_views
from components.vertex.task_details import leaf_tasks as leaf_tasks  # noqa: PLC0414 - taken from here
from pipelines.jobs.log import message_of
from trainer.json_types import Json
from trainer.runtime.progress import Progress, parse_progress

logger = logging.getLogger(__name__)

FINAL_STATES = {
    "PIPELINE_STATE_SUCCEEDED",
    "PIPELINE_STATE_FAILED",
    "PIPELINE_STATE_CANCELLED",
}
TRAINING_TASK = "train"
LEAST_DELAY_SECONDS = 0.2
MOST_DELAY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A pipeline run at one moment; `outputs` maps task and output name to a value or metadata.

    `job` is the PipelineJob that it was read from.
    """

    state: str
    tasks: tuple[TaskView, ...]
    outputs: dict[str, dict[str, Any]]
    error: str = ""
    training: Progress | None = None
    warnings: tuple[str, ...] = ()
    job: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self.state in FINAL_STATES

    def is_running(self, task: str) -> bool:
        """Whether the task `task` runs now."""
        return any(view.name == task and view.state == "RUNNING" for view in self.tasks)


def follow(api: VertexApi, *, run: str, task_names: dict[str, str]) -> Iterator[RunView]:
    """Yields the run each time something has changed; the last view is final."""
    training = TrainingLog(api, run=run)
    before: RunView | None = None
    delay_seconds = LEAST_DELAY_SECONDS
    while before is None or not before.is_final:
        job = api.get(f"{api.parent}/pipelineJobs/{run}")
        view = view_of(job, task_names=task_names)
        progress = training.latest() if view.is_running(TRAINING_TASK) else None
        warnings = before.warnings if before else ()
        if progress or view.is_final:
            warnings = training.warnings()
        view = dataclasses.replace(view, training=progress, warnings=warnings)
        if view != before:
            yield view
            delay_seconds = LEAST_DELAY_SECONDS
        before = view
        if not view.is_final:
            time.sleep(delay_seconds)
            delay_seconds = min(delay_seconds * 1.2, MOST_DELAY_SECONDS)


def view_of(job: Json, *, task_names: dict[str, str]) -> RunView:
    """Reads a PipelineJob; tasks come in the order of `task_names`, under their display names."""
    return RunView(
        state=job.get("state", "PIPELINE_STATE_PENDING"),
        tasks=task_views(job, task_names),
        outputs=outputs_by_task(job, task_names),
        error=job.get("error", {}).get("message", ""),
        job=job,
    )


class TrainingLog:
    """The newest progress line of a run's training job, read as its log grows, and its warnings."""

    def __init__(self, api: VertexApi, *, run: str) -> None:
        self._api = api
        self._run = run
        self._job_id = ""
        self._page_token = ""
        self._latest: Progress | None = None
        self._warnings: tuple[str, ...] | None = None

    def latest(self) -> Progress | None:
        """Reads what is new and answers the last progress; None before the first line."""
        if self._find_job():
            self._read()
        return self._latest

    def warnings(self) -> tuple[str, ...]:
        """Return the job's warnings, which are there once it has started: asked for once."""
        if self._warnings is None:
            try:
                if job_id := self._find_job():
                    self._warnings = tuple(job_warnings(self._api, job_id))
            except VertexError as error:  # no reason to give up following the run
                logger.warning("the warnings of run %s cannot be read: %s", self._run, error)
        return self._warnings or ()

    def _find_job(self) -> str:
        """Return the id of the run's job, "" while there is none."""
        if self._job_id:
            return self._job_id
        jobs = self._api.list_resources("customJobs", filter=f'labels.{RUN_LABEL}="{self._run}"')
        self._job_id = next((ResourceName.from_name(job["name"]).id for job in jobs), "")
        return self._job_id

    def _read(self) -> None:
        entries, self._page_token = self._api.log_entries(
            f'resource.type="ml_job" AND resource.labels.job_id="{self._job_id}" AND '
            'resource.labels.task_name="workerpool0-0"',
            page_token=self._page_token,
        )
        for entry in entries:
            self._latest = parse_progress(message_of(entry)) or self._latest


def wait_until_final(
    api: VertexApi, *, run: str, timeout_seconds: float, clock: Callable[[], float] = time.monotonic
) -> Json:
    """The PipelineJob once it has ended.

    Raises:
        TimeoutError: it had not ended in time; says its state.
    """
    deadline = clock() + timeout_seconds
    while True:
        job = api.get(f"{api.parent}/pipelineJobs/{run}")
        if job.get("state") in FINAL_STATES:
            return job
        if clock() > deadline:
            raise TimeoutError(f"run {run} is {job.get('state')} after {timeout_seconds:.0f} s")
        time.sleep(LEAST_DELAY_SECONDS)
