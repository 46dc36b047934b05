"""Pipeline runs whose runner ended before the pipeline did.

The journal has an event `pipeline_interrupted` for each such runner. The jobs and operations that
the run's tasks had started are cancelled, as Vertex AI does, and a new runner runs the exit tasks
(`run_state.py`).
"""

import json
import logging
import threading
import time
from pathlib import Path

from vertex_local import Json
from vertex_local.api.service import Service
from vertex_local.batch import resource as batch
from vertex_local.jobs import resource as jobs
from vertex_local.machine.clock import timestamp
from vertex_local.pipelines import journal
from vertex_local.pipelines import record as pipeline_record
from vertex_local.pipelines.journal import INTERRUPTION, Journal
from vertex_local.pipelines.runner import JOB_FILE

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
OPERATIONS_TIMEOUT_SECONDS = 30.0
# Vertex AI sets this label on each run, and GCPC on each resource that a run creates.
BILLING_LABEL = "vertex-ai-pipelines-run-billing-id"


def is_interrupted(folder: Path) -> bool:
    """Return whether tasks of a run have started and the run has not ended."""
    events = journal.read(folder)
    has_started = journal.last(events, "task_started") is not None
    return has_started and journal.last(events, "pipeline_ended") is None


def has_exit_tasks(folder: Path) -> bool:
    """Return whether the pipeline of a run has exit tasks."""
    spec = json.loads((folder / JOB_FILE).read_text())["pipelineSpec"]
    return any(leaf.is_exit for leaf in pipeline_record.leaves(spec))


def journal_interruption(folder: Path, *, group_state: Json, is_cancelled: bool) -> bool:
    """Journal the early end of a runner; return whether another runner may be started.

    The run keeps the reason and state of its first interruption. After `MAX_ATTEMPTS` failed
    runners for the exit tasks, the end of the run is journaled; runners that were stopped with
    the service do not count.
    """
    before = [event for event in journal.read(folder) if event["event"] == INTERRUPTION]
    message = group_state["message"]
    event = {
        "reason": message if message.startswith("interrupted: ") else f"interrupted: {message}",
        "state": "CANCELLED" if is_cancelled else "FAILED",
        "was_stopped": group_state["state"] == "cancelled",
    }
    if group_state["state"] == "interrupted":  # the service was killed, perhaps long ago
        event["time"] = _last_activity(folder)
    first = before[0] if before else event
    event["state"] = first["state"]
    writer = Journal(folder)
    writer.write(INTERRUPTION, **event)
    num_failed = sum(not one["was_stopped"] for one in [*before, event][1:])
    if num_failed < MAX_ATTEMPTS:
        return True
    error = (
        f"{first['reason']}\nThe exit tasks failed in {num_failed} attempts, so resources of the "
        f"run may be left over. The last attempt: {event['reason']}"
    )
    writer.write("pipeline_ended", state=first["state"], error=error)
    return False


def _last_activity(folder: Path) -> str:
    logged = max((path.stat().st_mtime for path in folder.rglob("*.log")), default=0.0)
    journaled: str = journal.read(folder)[-1]["time"]
    return max(journaled, timestamp(logged, timespec="milliseconds"))


def cancel_unfinished(service: Service, run: Json, folder: Path) -> None:
    """Cancel the jobs and operations that a run's tasks had started, and wait for their ends.

    Also waits for all other operations: one that had just started is not in the journal yet.
    """
    label = run["labels"][BILLING_LABEL]
    for kind in (jobs.KIND, batch.KIND):
        unfinished = [
            job["name"]
            for job in service.store.unfinished(kind.collection)
            if job.get("labels", {}).get(BILLING_LABEL) == label
        ]
        kind.end(service, unfinished, grace_seconds=kind.cancel_grace_seconds)
    for event in journal.read(folder):
        operation = service.running.get(event.get("resource", ""))
        if isinstance(operation, threading.Event):
            operation.set()
    _await_operations(service)


def _await_operations(service: Service) -> None:
    awaited = _unfinished_operations(service)
    deadline = time.monotonic() + OPERATIONS_TIMEOUT_SECONDS
    while remaining := _unfinished_operations(service) & awaited:
        if time.monotonic() > deadline:
            logger.warning(
                "exit tasks start although operations have not ended after %g s: %s",
                OPERATIONS_TIMEOUT_SECONDS,
                ", ".join(sorted(remaining)),
            )
            return
        if service.ending.wait(0.05):
            return


def _unfinished_operations(service: Service) -> set[str]:
    return {operation["name"] for operation in service.store.unfinished("operations")}
