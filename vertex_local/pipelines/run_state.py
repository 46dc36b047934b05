"""State of a pipeline run in its runner: tasks, failures, cancellation."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.machine.docker_engine import Engine
from vertex_local.pipelines import journal
from vertex_local.pipelines.journal import Journal
from vertex_local.pipelines.previous_runner import PreviousRunner
from vertex_local.pipelines.record import ROOT, Leaf
from vertex_local.processes.warm import WarmClient

logger = logging.getLogger(__name__)

EXIT_TASKS_SECONDS = 60.0  # for all exit tasks of a cancelled or interrupted run
POLL_SECONDS = 0.05
CHANNEL = "pipelinechannel--"  # prefix of the inputs that the compiler adds for placeholders


class TaskError(Exception):
    """Failure of a task, with a message for the author of the pipeline."""


@dataclass
class Task:
    """One execution of a task of the pipeline."""

    id: int
    leaf: Leaf
    scope: str
    unique_name: str
    is_importer: bool
    log_path: Path
    has_run: bool = False
    error: str = ""
    note: str = ""
    was_stopped: bool = False
    inputs: Json = field(default_factory=dict)
    parameters: Json | None = None  # `inputs` with placeholders resolved; None if it never ran
    started_at: float = field(default_factory=time.monotonic)

    def fields(self) -> Json:
        """Return the fields that identify it in events."""
        return {
            "id": self.id,
            "key": self.leaf.key,
            "scope": self.scope,
            "name": self.leaf.name,
            "unique_name": self.unique_name,
            "display_name": self.leaf.display_name,
        }


# Runs a task with kfp.local; returns its outputs, and whether it succeeded.
Execute = Callable[[], tuple[Json, bool]]


class PipelineRun:
    """Journal of a run, and the decision which tasks may start and which must stop.

    In a run whose previous runner was interrupted only exit tasks start.
    """

    def __init__(self, job: Json, *, folder: Path, leaves: list[Leaf]) -> None:
        self.name: str = job["name"]
        self.folder = folder
        exit_keys = {leaf.key for leaf in leaves if leaf.is_exit}
        self.previous = PreviousRunner(journal.read(folder), exit_keys=exit_keys)
        self.journal = Journal(folder)
        self.failures: list[tuple[str, str]] = self.previous.failures
        config = job.get("runtimeConfig", {})
        self._fails_fast = config.get("failurePolicy") == "PIPELINE_FAILURE_POLICY_FAIL_FAST"
        self._leaves = {leaf.key: leaf for leaf in leaves}
        self._seen = self.previous.keys
        self._num_by_name = self.previous.num_by_name
        self._num_tasks = self.previous.num_tasks
        self._lock = threading.Lock()
        self._local = threading.local()
        self._exit_deadline = float("inf")
        self._is_cancelled = self.previous.is_cancelled

    @property
    def current(self) -> Task | None:
        """Task that this thread is running."""
        return getattr(self._local, "task", None)

    @property
    def graph(self) -> str:
        """Component whose graph this thread is in; `ROOT` for the pipeline itself."""
        return getattr(self._local, "graph", ROOT)

    @contextmanager
    def in_graph(self, component: str) -> Iterator[None]:
        """Run the tasks of a component's graph in this thread."""
        outer = self.graph, self._num_revisited_before
        self._local.graph = component
        self._local.num_revisited = self.previous.num_revisited
        try:
            yield
        finally:
            self._local.graph, self._local.num_revisited = outer

    @property
    def is_resumed(self) -> bool:
        """True if a previous runner was interrupted, so that only exit tasks remain."""
        return bool(self.previous.reason)

    @property
    def is_cancelled(self) -> bool:
        """True if a user or the service has cancelled the run."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Stop the running tasks and start only exit tasks; safe in a signal handler.

        Ignored if only exit tasks remain.
        """
        if not self._is_cancelled and not self.is_resumed:
            self._exit_deadline = time.monotonic() + EXIT_TASKS_SECONDS
            self._is_cancelled = True

    def start_exit_timeout(self) -> None:
        """Start the timeout of the exit tasks of an interrupted run."""
        if self.is_resumed:
            self._exit_deadline = time.monotonic() + EXIT_TASKS_SECONDS

    def must_stop(self) -> bool:
        """Return whether this thread's task must stop now."""
        task = self.current
        if task and task.leaf.is_exit:
            must_stop = time.monotonic() > self._exit_deadline
        else:
            must_stop = self._is_cancelled
        if task and must_stop:
            task.was_stopped = True
        return must_stop

    def may_start(self, *, is_exit: bool) -> bool:
        """Return whether a task may start; exit tasks may after a failure or cancellation, too."""
        if is_exit:
            return time.monotonic() < self._exit_deadline
        return not self.is_resumed and not self.is_stopping

    @property
    def is_stopping(self) -> bool:
        """True if this runner was cancelled, or a task has failed and the run fails fast."""
        has_failed = self._fails_fast and bool(self.failures)
        return not self.is_resumed and (self._is_cancelled or has_failed)

    def sleep(self, seconds: float) -> None:
        """Sleep, but return early if the task must stop."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0 and not self.must_stop():
            time.sleep(min(remaining, POLL_SECONDS))

    def run_task(
        self, key: str, name: str, *, is_importer: bool, execute: Execute, scope: str = ""
    ) -> tuple[Json, bool]:
        """Run a task unless the run is stopping; journal its start and end.

        Args:
            key: The task in the specification (`Leaf.key`).
            name: Its name in kfp.local.
            is_importer: Whether it is an importer, which has no process.
            execute: Runs it.
            scope: The loop iterations that it is in.

        Returns:
            The outputs ({} unless it succeeded), and whether it succeeded.
        """
        leaf = self._leaves.get(key) or Leaf(key=key, name=name, display_name=name)
        if not self.may_start(is_exit=leaf.is_exit) or not self._has_graph_started():
            return {}, False
        task = self._new_task(leaf, scope=scope, is_importer=is_importer)
        self.journal.write("task_started", **task.fields())
        self._local.task = task
        try:
            outputs, is_success = self._execute(task, execute)
            self._journal_end(task, outputs, is_success)
        finally:
            self._local.task = None
        return outputs, is_success

    def record_resource(self, name: str) -> None:
        """Journal a job or an operation that this thread's task has created."""
        task = self.current
        assert task is not None
        self.journal.write("task_created", id=task.id, resource=name)

    def fail(self, name: str, message: str) -> None:
        """Record a failure of a task or a group of tasks."""
        logger.error("%s: %s", name, message)
        self.failures.append((name, message))

    def journal_untriggered(self) -> None:
        """Journal the tasks that never started: not reached, or their condition was false."""
        for leaf in self._leaves.values():
            if leaf.key not in self._seen:
                task = self._new_task(leaf, scope="", is_importer=False)
                self.journal.write("task_not_triggered", **task.fields())

    def error_message(self) -> str:
        """Return the error of the run in Vertex AI's words, with the errors of its tasks."""
        reason = "The pipeline was cancelled." if self._is_cancelled else self.previous.reason
        if not self.failures:
            return reason
        names = ", ".join(name for name, _ in self.failures)
        lines = [
            *([reason] if self.is_resumed else []),
            f"The DAG failed because some tasks failed. The failed tasks are: [{names}].",
            *(f"{name}: {message}" for name, message in self.failures),
        ]
        return "\n".join(lines)

    @property
    def _num_revisited_before(self) -> int:
        """`num_revisited` when this thread's graph was entered."""
        return getattr(self._local, "num_revisited", 0)

    def _has_graph_started(self) -> bool:
        """Return whether a task of this thread's graph started before the run was interrupted."""
        return not self.is_resumed or self.previous.num_revisited > self._num_revisited_before

    def _new_task(self, leaf: Leaf, *, scope: str, is_importer: bool) -> Task:
        with self._lock:
            self._seen.add(leaf.key)
            self._num_tasks += 1
            count = self._num_by_name.get(leaf.name, 0) + 1
            self._num_by_name[leaf.name] = count
            unique_name = leaf.name if count == 1 else f"{leaf.name}-run-{count}"
            return Task(
                id=self._num_tasks,
                leaf=leaf,
                scope=scope,
                unique_name=unique_name,
                is_importer=is_importer,
                log_path=self.folder / "tasks" / f"{unique_name}.log",
            )

    def _execute(self, task: Task, execute: Execute) -> tuple[Json, bool]:
        try:
            outputs, is_success = execute()
            return (outputs if is_success else {}), is_success
        except TaskError as error:
            task.error = str(error)
        except Exception as error:
            # kfp.local raises if it cannot prepare a task or read its outputs. If the exception
            # went on to its caller, the exit handler would not run.
            logger.exception("task %s cannot be run", task.leaf.name)
            task.error = f"{type(error).__name__}: {error}"
        return {}, False

    def _journal_end(self, task: Task, outputs: Json, is_success: bool) -> None:
        if is_success:
            state = "SUCCEEDED" if task.has_run or task.is_importer else "SKIPPED"
        elif task.was_stopped:
            state, task.error = "CANCELLED", "The task was cancelled."
        else:
            state = "FAILED"
            self.fail(task.leaf.name, task.error or "it failed without a message")
        self.journal.write(
            "task_ended",
            id=task.id,
            state=state,
            seconds=round(time.monotonic() - task.started_at, 3),
            error="" if is_success else task.error,
            note=task.note,
            inputs=_parameters(task.inputs if task.parameters is None else task.parameters),
            outputs=_parameters(outputs),
            input_artifacts=_artifacts(task.inputs),
            output_artifacts=_artifacts(outputs),
        )


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Everything that the tasks of a run share.

    Attributes:
        run: The run.
        service_url: The service, `http://127.0.0.1:8085`.
        temp_dir: Folder for the temporary files of tasks.
        warm: The service's warm process, if it has one.
        engine: Runs steps in containers; without it they are processes.
    """

    run: PipelineRun
    service_url: str
    temp_dir: Path
    warm: WarmClient | None = None
    engine: Engine | None = None


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and any other value in a list."""
    return value if isinstance(value, list) else [value]


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
    """Return the artifacts of a value, recognised by their fields to avoid importing kfp."""
    values = as_list(value)
    return values if values and all(hasattr(one, "schema_title") for one in values) else []


def _artifact(artifact: Any) -> Json:
    return {
        "displayName": artifact.name,
        "uri": artifact.uri,
        "schemaTitle": artifact.schema_title,
        "state": "LIVE",
        "metadata": artifact.metadata,
    }
