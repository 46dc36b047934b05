"""One run of a pipeline: what became of its tasks, and whether it is to stop."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vertex_local.json_types import Json
from vertex_local.pipelines import journal
from vertex_local.pipelines.earlier_tasks import Earlier
from vertex_local.pipelines.journal import EventLog
from vertex_local.pipelines.spec import ROOT, Leaf

logger = logging.getLogger(__name__)


EXIT_TASKS_SECONDS = 60.0  # how long exit tasks may take once the run is cancelled or interrupted
NAP_SECONDS = 0.05
CHANNEL = "pipelinechannel--"  # what the compiler adds to a task's inputs to fill its texts


class TaskError(Exception):
    """A task failed; the message says all that its user needs to know."""


@dataclass
class Task:
    """One execution of a task of the pipeline."""

    id: int
    key: str
    scope: str
    name: str
    unique_name: str
    display_name: str
    is_exit: bool
    is_importer: bool
    log_path: Path
    has_run: bool = False
    error: str = ""
    was_stopped: bool = False
    inputs: Json = field(default_factory=dict)
    parameters: Json | None = None  # of `inputs`, with placeholders filled; None if it never ran
    started_at: float = field(default_factory=time.monotonic)

    def fields(self) -> Json:
        """How events name it."""
        names = ("id", "key", "scope", "name", "unique_name", "display_name")
        return {name: getattr(self, name) for name in names}


# Runs a task by kfp.local; returns its outputs, and whether it succeeded.
Execute = Callable[[], tuple[Json, bool]]


class PipelineRun:
    """Keeps the journal of a run and decides which tasks may still start or go on.

    Where the journal says that the run was interrupted, this continues it: only exit tasks start.
    """

    def __init__(self, job: Json, *, folder: Path, leaves: list[Leaf]) -> None:
        self.name: str = job["name"]
        self.folder = folder
        exit_keys = {leaf.key for leaf in leaves if leaf.is_exit}
        self._earlier = Earlier(journal.read(folder), exit_keys=exit_keys)
        self.events = EventLog(folder)
        self.failures: list[tuple[str, str]] = self._earlier.failures
        config = job.get("runtimeConfig", {})
        self._fails_fast = config.get("failurePolicy") == "PIPELINE_FAILURE_POLICY_FAIL_FAST"
        self._leaves = {leaf.key: leaf for leaf in leaves}
        self._seen = self._earlier.keys
        self._num_by_name = self._earlier.num_by_name
        self._num_tasks = self._earlier.num_tasks
        self._lock = threading.Lock()
        self._local = threading.local()
        self._exit_deadline = float("inf")
        self._is_cancelled = self._earlier.is_cancelled

    @property
    def current(self) -> Task | None:
        """The task that this thread is executing."""
        return getattr(self._local, "task", None)

    @property
    def graph(self) -> str:
        """The component whose graph this thread is in; the pipeline's own is `ROOT`."""
        return getattr(self._local, "graph", ROOT)

    @contextmanager
    def in_graph(self, component: str) -> Iterator[None]:
        """Marks that this thread works on the tasks of a component's graph."""
        outer, self._local.graph = self.graph, component
        num_met, self._local.num_met = self._num_met_before, self._earlier.num_met
        try:
            yield
        finally:
            self._local.graph, self._local.num_met = outer, num_met

    @property
    def is_finishing(self) -> bool:
        """Whether the run was interrupted, and only its exit tasks are left to run."""
        return bool(self._earlier.reason)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked the run to stop."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Stops what runs and starts nothing more but exit tasks. Safe in a signal handler.

        Does nothing where nothing but exit tasks is left.
        """
        if not self._is_cancelled and not self.is_finishing:
            self._exit_deadline = time.monotonic() + EXIT_TASKS_SECONDS
            self._is_cancelled = True

    def limit_exit_tasks(self) -> None:
        """Gives the exit tasks of an interrupted run their time from now on."""
        if self.is_finishing:
            self._exit_deadline = time.monotonic() + EXIT_TASKS_SECONDS

    def must_stop(self) -> bool:
        """Whether this thread's task is to end now."""
        task = self.current
        if task and task.is_exit:
            stops = time.monotonic() > self._exit_deadline
        else:
            stops = self._is_cancelled
        if task and stops:
            task.was_stopped = True
        return stops

    def may_start(self, *, is_exit: bool) -> bool:
        """Whether a task may still start: exit tasks do, also after a failure or a cancel."""
        if is_exit:
            return time.monotonic() < self._exit_deadline
        return not self.is_finishing and not self.is_ending

    @property
    def is_ending(self) -> bool:
        """Whether this runner was cancelled, or has to stop at a failure."""
        has_failed = self._fails_fast and bool(self.failures)
        return not self.is_finishing and (self._is_cancelled or has_failed)

    def earlier_success(self, key: str, *, scope: str) -> Json | None:
        """Return how a task ended that succeeded before the run was interrupted."""
        return self._earlier.success(key, scope)

    def sleep(self, seconds: float) -> None:
        """Sleeps, but wakes up when the task is to stop."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.must_stop():
            time.sleep(min(left, NAP_SECONDS))

    def run_task(
        self, key: str, name: str, *, is_importer: bool, execute: Execute, scope: str = ""
    ) -> Any:
        """Executes a task unless the run is stopping, and journals its start and its end.

        Args:
            key: The task's place in the specification (`Leaf.key`).
            name: What kfp.local calls it.
            is_importer: Importers have no process of their own.
            execute: Does the work.
            scope: The iterations of loops that it is in, for tasks of one key.

        Returns:
            The outputs (none unless it succeeded), and whether it succeeded.
        """
        leaf = self._leaves.get(key) or Leaf(key=key, name=name, display_name=name)
        if not self.may_start(is_exit=leaf.is_exit) or not self._has_graph_begun():
            return {}, False
        task = self._new_task(leaf, scope=scope, is_importer=is_importer)
        self.events.write("task_started", **task.fields())
        with self._executing(task):
            outputs, is_success = self._outcome(task, execute)
            self._journal_end(task, outputs, is_success)
        return outputs, is_success

    def note_resource(self, name: str) -> None:
        """Journals a job or an operation that this thread's task has created."""
        task = self.current
        assert task is not None
        self.events.write("task_created", id=task.id, resource=name)

    def fail(self, name: str, message: str) -> None:
        """Records a failure that is no task's own."""
        logger.error("%s: %s", name, message)
        self.failures.append((name, message))

    def journal_untriggered(self) -> None:
        """Journals the tasks that never started: not reached, or guarded by a false condition."""
        for leaf in self._leaves.values():
            if leaf.key not in self._seen:
                task = self._new_task(leaf, scope="", is_importer=False)
                self.events.write("task_not_triggered", **task.fields())

    def error_message(self) -> str:
        """What went wrong, as Vertex AI says it, with the failed tasks' own words."""
        reason = "The pipeline was cancelled." if self._is_cancelled else self._earlier.reason
        if not self.failures:
            return reason
        names = ", ".join(name for name, _ in self.failures)
        lines = [
            *([reason] if self.is_finishing else []),
            f"The DAG failed because some tasks failed. The failed tasks are: [{names}].",
            *(f"{name}: {message}" for name, message in self.failures),
        ]
        return "\n".join(lines)

    @property
    def _num_met_before(self) -> int:
        return getattr(self._local, "num_met", 0)

    def _has_graph_begun(self) -> bool:
        """Whether a task of this thread's graph had started before the run was interrupted."""
        return not self.is_finishing or self._earlier.num_met > self._num_met_before

    def _new_task(self, leaf: Leaf, *, scope: str, is_importer: bool) -> Task:
        with self._lock:
            self._seen.add(leaf.key)
            self._num_tasks += 1
            count = self._num_by_name.get(leaf.name, 0) + 1
            self._num_by_name[leaf.name] = count
            unique_name = leaf.name if count == 1 else f"{leaf.name}-run-{count}"
            return Task(
                id=self._num_tasks,
                key=leaf.key,
                scope=scope,
                name=leaf.name,
                unique_name=unique_name,
                display_name=leaf.display_name,
                is_exit=leaf.is_exit,
                is_importer=is_importer,
                log_path=self.folder / "tasks" / f"{unique_name}.log",
            )

    @contextmanager
    def _executing(self, task: Task) -> Iterator[None]:
        self._local.task = task
        try:
            yield
        finally:
            self._local.task = None

    def _outcome(self, task: Task, execute: Execute) -> tuple[Json, bool]:
        try:
            outputs, is_success = execute()
        except TaskError as error:
            task.error = str(error)
        except Exception as error:
            # kfp.local raises where it cannot prepare a task or read its outputs. Raised any
            # further, the exit handler would not run.
            logger.exception("task %s cannot be carried out", task.name)
            task.error = f"{type(error).__name__}: {error}"
        else:
            return (outputs, True) if is_success else ({}, False)
        return {}, False

    def _journal_end(self, task: Task, outputs: Json, is_success: bool) -> None:
        if is_success:
            state = "SUCCEEDED" if task.has_run or task.is_importer else "SKIPPED"
        elif task.was_stopped:
            state, task.error = "CANCELLED", "The task was cancelled."
        else:
            state = "FAILED"
            self.fail(task.name, task.error or "it failed without a message")
        self.events.write(
            "task_ended",
            id=task.id,
            state=state,
            seconds=round(time.monotonic() - task.started_at, 3),
            error="" if is_success else task.error,
            inputs=_parameters(task.inputs if task.parameters is None else task.parameters),
            outputs=_parameters(outputs),
            input_artifacts=_artifacts(task.inputs),
            output_artifacts=_artifacts(outputs),
        )


def _parameters(values: Json) -> Json:
    return {
        name: value
        for name, value in values.items()
        if value is not None and not _artifact_list(value) and not name.startswith(CHANNEL)
    }


def _artifacts(values: Json) -> Json:
    return {
        name: [_artifact(one) for one in found]
        for name, value in values.items()
        if (found := _artifact_list(value))
    }


def _artifact_list(value: Any) -> list[Any]:
    """The artifacts of a value; kfp's are known by their fields, so that kfp is not imported."""
    values = value if isinstance(value, list) else [value]
    return values if values and all(hasattr(one, "schema_title") for one in values) else []


def _artifact(artifact: Any) -> Json:
    return {
        "displayName": artifact.name,
        "uri": artifact.uri,
        "schemaTitle": artifact.schema_title,
        "state": "LIVE",
        "metadata": artifact.metadata,
    }
