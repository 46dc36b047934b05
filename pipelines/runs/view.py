"""State of a pipeline run and its tasks, polled until the run has ended, and their logs.

Vertex AI runs each task as a custom job of its own.
"""

import dataclasses
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import RUN_LABEL
from components.shared.vertex.task_details import (
    TaskView,
    details_in,
    error_of,
    job_warnings,
    leaf_tasks,
    outputs_by_task,
    task_views,
)
from pipelines.errors import ResourceError
from pipelines.jobs.log import LogReader, follow_logs, line_of, message_of
from pipelines.resources.kinds import RUN
from pipelines.resources.names import short_name
from trainer import Json
from trainer.errors import did_you_mean
from trainer.runtime.progress import Progress, parse_progress

logger = logging.getLogger(__name__)

TRAINING_TASK = "train"
PROGRESS_REPLICA = "chief/0"  # the replica that logs progress
# What KFP logs of itself in each step: where the code is, and the whole input as JSON.
KFP_PREFIX = re.compile(r"\[KFP Executor \S+ \S+ \w+\]: ")
KFP_INPUT = "Got executor_input:"
KFP_LINE = re.compile(
    rf"Looking for component |Loading KFP component |{KFP_INPUT}|Wrote executor output file "
    r"|Did not write output file|.*RuntimeWarning: 'kfp\.dsl\.executor_main' found in sys\.modules"
)
MIN_DELAY_SECONDS = 0.2
MAX_DELAY_SECONDS = 1.0
DELAY_GROWTH = 1.2


@dataclass(frozen=True, kw_only=True)
class RunView:
    """Snapshot of a run; `outputs` has values by `TASK.OUTPUT`, metadata by `TASK.OUTPUT.KEY`.

    `job` is the PipelineJob that the snapshot was read from.
    """

    state: str
    tasks: tuple[TaskView, ...]
    outputs: Json
    error: str = ""
    training: Progress | None = None
    warnings: tuple[str, ...] = ()
    job: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_final(self) -> bool:
        """Return whether the run has ended."""
        return RUN.is_final({"state": self.state})

    def is_running(self, task: str) -> bool:
        """Return whether a task is running."""
        return any(view.name == task and view.state == "RUNNING" for view in self.tasks)


def follow(api: VertexApi, *, run: str) -> Iterator[RunView]:
    """Yield a snapshot of the run whenever it has changed; the last one is final."""
    training = TrainingLog(api, run=run)
    before: RunView | None = None
    delay_seconds = MIN_DELAY_SECONDS
    while before is None or not before.is_final:
        view = view_of(RUN.get(api, run))
        progress = training.latest() if view.is_running(TRAINING_TASK) else None
        warnings = before.warnings if before else ()
        if progress or view.is_final:
            warnings = training.warnings()
        view = dataclasses.replace(view, training=progress, warnings=warnings)
        if view != before:
            yield view
            delay_seconds = MIN_DELAY_SECONDS
        before = view
        if not view.is_final:
            time.sleep(max(delay_seconds, api.min_poll_seconds))
            delay_seconds = min(delay_seconds * DELAY_GROWTH, MAX_DELAY_SECONDS)


def view_of(job: Json) -> RunView:
    """Return a snapshot of a PipelineJob."""
    return RunView(
        state=job.get("state", "PIPELINE_STATE_PENDING"),
        tasks=task_views(job),
        outputs=outputs_by_task(job),
        error=error_of(job),
        job=job,
    )


class TrainingLog:
    """Progress and warnings of a run's training job, read from its log as it grows."""

    def __init__(self, api: VertexApi, *, run: str) -> None:
        self._api = api
        self._run = run
        self._job_id = ""
        self._reader: LogReader | None = None
        self._latest: Progress | None = None
        self._warnings: tuple[str, ...] | None = None

    def latest(self) -> Progress | None:
        """Read the new log lines; return the latest progress, None before the first."""
        if job_id := self._find_job():
            if self._reader is None:
                self._reader = LogReader(self._api, job_id, replica=PROGRESS_REPLICA)
            for entry in self._reader.new_entries():
                self._latest = parse_progress(message_of(entry)) or self._latest
        return self._latest

    def warnings(self) -> tuple[str, ...]:
        """Return the training job's warnings, which are known from its start and requested once."""
        if self._warnings is None:
            try:
                if job_id := self._find_job():
                    self._warnings = tuple(job_warnings(self._api, job_id))
            except VertexError as error:  # the run can be followed without its warnings
                logger.warning("cannot read the warnings of run %s: %s", self._run, error)
        return self._warnings or ()

    def _find_job(self) -> str:
        """Return the id of the run's training job, "" if it has not been created."""
        self._job_id = self._job_id or training_job(self._api, self._run)
        return self._job_id


def training_job(api: VertexApi, run: str) -> str:
    """Return the id of a run's training job, "" if it has not been created."""
    jobs = api.list_resources("customJobs", filter=f'labels.{RUN_LABEL}="{run}"')
    return next((short_name(job["name"]) for job in jobs), "")


Label = tuple[str, Callable[[Json], str]]  # a task's name, and the form of its job's lines


def run_log_lines(
    api: VertexApi, run: str, *, task: str | None = None, is_followed: bool = False
) -> Iterator[str]:
    """Yield the log lines of a run's tasks, or of one, each with its task's name in front.

    Those that KFP logs of itself are left out. The task that trains has the log of its job, too,
    with the replicas' names.

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
    in_input: set[str] = set()  # tasks whose input is being logged
    for (name, text_of), entry in entries:
        line = KFP_PREFIX.sub("", text_of(entry))
        if name in in_input:
            in_input -= {name} if line == "}" else set()
        elif line == KFP_INPUT:
            in_input.add(name)
        elif not KFP_LINE.match(line):
            yield f"{name}  {line}"


def _task_jobs(job: Json) -> list[tuple[str, str]]:
    names = leaf_tasks(job)
    jobs = []
    for detail in details_in(job):
        container = detail.get("executorDetail", {}).get("containerDetail", {})
        if detail.get("taskName") in names and container.get("mainJob"):
            jobs.append((names[detail["taskName"]], short_name(container["mainJob"])))
    return jobs


def _check_task(job: Json, task: str | None) -> None:
    names = leaf_tasks(job).values()
    if task is not None and task not in names:
        hint = did_you_mean(task, names)
        raise ResourceError(
            f"--task {task!r} is not a task of this run;{hint} its tasks are {', '.join(names)}"
        )
