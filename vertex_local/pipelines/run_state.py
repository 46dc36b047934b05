"""State of a pipeline run in its runner: tasks, failures, cancellation, and its previous runner."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from vertex_local import Json
from vertex_local.pipelines import journal
from vertex_local.pipelines.journal import INTERRUPTION, Journal
from vertex_local.pipelines.record import Leaf
from vertex_local.rules.values import Result, TaskValues

logger = logging.getLogger(__name__)

SUCCESS_STATES = ("SUCCEEDED", "SKIPPED")
EXIT_TASKS_SECONDS = 60.0  # for all exit tasks of a cancelled or interrupted run
POLL_SECONDS = 0.05


class PreviousRunner:
    """Tasks of the run before this runner started; empty in a run's first runner.

    `reason` is the first interruption's, `failures` has the names and errors of the failed
    tasks without exit tasks, `keys` has the leaves with an entry in the journal.
    """

    def __init__(self, events: list[Json], *, exit_keys: set[str]) -> None:
        interruptions = [event for event in events if event["event"] == INTERRUPTION]
        if not interruptions:
            events = []
        # Later interruptions hit runners that were started for the exit tasks.
        first = interruptions[0] if interruptions else {"reason": "", "state": ""}
        self.reason: str = first["reason"]
        self.is_cancelled = first["state"] == "CANCELLED"
        tasks = {event["id"]: event for event in events if "unique_name" in event}
        self.keys = {task["key"] for task in tasks.values()}
        self.num_by_name = Counter(task["name"] for task in tasks.values())
        self.failures: list[tuple[str, str]] = []
        self._successes: dict[tuple[str, str], Json] = {}
        self._scopes = {event["scope"] for event in events if event["event"] == "task_started"}
        for end in events:
            task = tasks.get(end["id"]) if end["event"] == "task_ended" else None
            if task and end["state"] in SUCCESS_STATES:
                self._successes[task["key"], task["scope"]] = end
            elif task and end["state"] == "FAILED" and task["key"] not in exit_keys:
                self.failures.append(journal.failure(task, end["inputs"], end["error"]))

    def has_started(self, scope: str) -> bool:
        """Return whether a task in the graph of a scope, or in a graph within it, had started."""
        return any(f"{started}/".startswith(f"{scope}/") for started in self._scopes)

    def success(self, key: str, scope: str) -> Json | None:
        """Return the `task_ended` event of a task that has succeeded, else None."""
        return self._successes.get((key, scope))


class TaskError(Exception):
    """Failure of a task, with a message for the author of the pipeline."""


@dataclass
class Task:
    """One execution of a task of the pipeline; `note` is a remark for the journal.

    `scope` are the groups and iterations that it is in (`Graph.scope`).
    """

    id: int
    leaf: Leaf
    scope: str
    unique_name: str
    log_path: Path
    is_cached: bool = False
    was_stopped: bool = False
    note: str = ""
    inputs: TaskValues = field(default_factory=TaskValues)
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
        self._lock = threading.Lock()
        seconds = EXIT_TASKS_SECONDS if self.is_resumed else float("inf")
        self._exit_deadline = time.monotonic() + seconds
        self._is_cancelled = self.previous.is_cancelled

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

    def must_stop(self, task: Task) -> bool:
        """Return whether a task must stop now."""
        is_late = time.monotonic() > self._exit_deadline
        must_stop = is_late if task.leaf.is_exit else self._is_cancelled
        task.was_stopped = task.was_stopped or must_stop
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

    def sleep(self, task: Task, seconds: float) -> None:
        """Sleep, but return early if the task must stop."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0 and not self.must_stop(task):
            time.sleep(min(remaining, POLL_SECONDS))

    def run_task(self, key: str, *, scope: str, execute: Callable[[Task], TaskValues]) -> Result:
        """Run a task (`Leaf.key`) unless the run is stopping; journal its start and end."""
        if end := self.previous.success(key, scope):
            return Result(True, TaskValues(end["outputs"], end["output_artifacts"]))
        leaf = self._leaves[key]
        has_graph_started = not self.is_resumed or self.previous.has_started(scope)
        if not self.may_start(is_exit=leaf.is_exit) or not has_graph_started:
            return Result(False)
        task = self._new_task(leaf, scope=scope)
        self.journal.write("task_started", **task.fields())
        logger.info("%s has started", task.unique_name)
        outputs, error = TaskValues(), ""
        try:
            outputs = execute(task)
        except (TaskError, ValueError) as problem:
            error = str(problem) or "it failed without a message"
        except Exception as problem:  # else the exit task would not run
            logger.exception("task %s cannot be run", leaf.name)
            error = f"{type(problem).__name__}: {problem}"
        self._journal_end(task, outputs, error)
        return Result(not error, outputs)

    def record_inputs(self, task: Task) -> None:
        """Journal the inputs of a task, once they are known."""
        inputs = {"inputs": _parameters(task.inputs), "input_artifacts": task.inputs.artifacts}
        self.journal.write("task_inputs", id=task.id, **inputs)

    def record_resource(self, task: Task, name: str) -> None:
        """Journal a job or an operation that a task has created."""
        self.journal.write("task_created", id=task.id, resource=name)

    def fail(self, name: str, message: str) -> None:
        """Record a failure of a task or a group of tasks."""
        logger.error("%s: %s", name, message)
        self.failures.append((name, message))

    def journal_untriggered(self) -> None:
        """Journal the tasks that never started: not reached, or their condition was false."""
        for leaf in self._leaves.values():
            if leaf.key not in self._seen:
                task = self._new_task(leaf, scope="")
                self.journal.write("task_not_triggered", **task.fields())

    def error_message(self) -> str:
        """Return the error of the run in Vertex AI's words, with the errors of its tasks."""
        reason = "The pipeline was cancelled." if self._is_cancelled else self.previous.reason
        if not self.failures:
            return reason
        names = ", ".join(name for name, _ in self.failures)
        lines = [
            f"The DAG failed because some tasks failed. The failed tasks are: [{names}].",
            *(f"{name}: {message}" for name, message in self.failures),
        ]
        if self.is_resumed:
            lines.insert(0, reason)
        return "\n".join(lines)

    def _new_task(self, leaf: Leaf, *, scope: str) -> Task:
        with self._lock:
            self._seen.add(leaf.key)
            self._num_by_name[leaf.name] += 1
            count = self._num_by_name[leaf.name]
            unique_name = leaf.name if count == 1 else f"{leaf.name}-run-{count}"
            return Task(
                id=self._num_by_name.total(),
                leaf=leaf,
                scope=scope,
                unique_name=unique_name,
                log_path=self.folder / "tasks" / f"{unique_name}.log",
            )

    def _journal_end(self, task: Task, outputs: TaskValues, error: str) -> None:
        if not error:
            state = "SKIPPED" if task.is_cached else "SUCCEEDED"
        elif task.was_stopped:
            state, error = "CANCELLED", "The task was cancelled."
        else:
            state = "FAILED"
            self.fail(*journal.failure(task.fields(), _parameters(task.inputs), error))
        logger.info("%s has ended: %s", task.unique_name, state)
        self.journal.write(
            "task_ended",
            id=task.id,
            state=state,
            seconds=round(time.monotonic() - task.started_at, 3),
            error=error,
            note=task.note,
            inputs=_parameters(task.inputs),
            outputs=_parameters(outputs),
            input_artifacts=task.inputs.artifacts,
            output_artifacts=outputs.artifacts,
        )


def _parameters(values: TaskValues) -> Json:
    return {
        name: value
        for name, value in values.parameters.items()
        if not name.startswith(journal.CHANNEL)
    }
