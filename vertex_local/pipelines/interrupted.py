"""Pipeline runs whose runner ended before the pipeline did: what is left of them to do.

The journal says so with an event `pipeline_interrupted` for each runner that ended too early. The
run's exit tasks are left to run (`earlier_tasks.py`, in a new runner), and the jobs and operations
that its tasks had begun are to be cancelled, as Vertex AI does.
"""

import json
import logging
import threading
import time
from pathlib import Path

from vertex_local.api.service import Service
from vertex_local.jobs import resource as jobs
from vertex_local.json_types import Json
from vertex_local.machine.clock import timestamp
from vertex_local.pipelines import journal as events
from vertex_local.pipelines import spec as pipeline_spec
from vertex_local.pipelines.earlier_tasks import INTERRUPTED_EVENT
from vertex_local.pipelines.runner import JOB_FILE

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
OPERATIONS_TIMEOUT_SECONDS = 30.0
# Vertex AI labels each run so; GCPC hands it on to what the run makes.
BILLING_LABEL = "vertex-ai-pipelines-run-billing-id"


def is_interrupted(folder: Path) -> bool:
    """Whether tasks of a run have started, and the run has not ended."""
    journal = events.read(folder)
    return bool(events.last(journal, "task_started")) and not events.last(journal, "pipeline_ended")


def has_exit_tasks(folder: Path) -> bool:
    """Whether the pipeline of a run has exit tasks."""
    spec = json.loads((folder / JOB_FILE).read_text())["pipelineSpec"]
    return any(leaf.is_exit for leaf in pipeline_spec.leaves(spec))


def journal_interruption(folder: Path, *, group_state: Json, is_cancelled: bool) -> bool:
    """Journals that the runner has ended too early; returns whether another one may be started.

    An interruption keeps its reason and its state over those of the runners that follow. After
    `MAX_ATTEMPTS` of them the run's end is journaled; a service that stopped in order, and the
    runner with it, does not count.
    """
    before = [one for one in events.read(folder) if one["event"] == INTERRUPTED_EVENT]
    message = group_state["message"]
    event = {
        "reason": message if message.startswith("interrupted: ") else f"interrupted: {message}",
        "state": "CANCELLED" if is_cancelled else "FAILED",
        "was_stopped": group_state["state"] == "cancelled",
    }
    if group_state["state"] == "interrupted":  # perhaps long ago
        event["time"] = _last_sign_of_life(folder)
    first = before[0] if before else event
    event["state"] = first["state"]
    journal = events.EventLog(folder)
    journal.write(INTERRUPTED_EVENT, **event)
    num_failed = sum(not one["was_stopped"] for one in [*before, event][1:])
    if num_failed < MAX_ATTEMPTS:
        return True
    error = (
        f"{first['reason']}\nThe exit tasks could not be run in {num_failed} attempts, so what the "
        f"run has made may be left behind. The last attempt: {event['reason']}"
    )
    journal.write("pipeline_ended", state=first["state"], error=error)
    return False


def _last_sign_of_life(folder: Path) -> str:
    logged = max((path.stat().st_mtime for path in folder.rglob("*.log")), default=0.0)
    journaled: str = events.read(folder)[-1]["time"]
    return max(journaled, timestamp(logged, timespec="milliseconds"))


def settle(service: Service, run: Json, folder: Path) -> None:
    """Cancels the jobs and operations that a run's tasks had begun, and waits for their ends.

    Also waits for operations of others: an operation that had just begun is not journaled yet.
    """
    label = run["labels"][BILLING_LABEL]
    unfinished = [
        job["name"]
        for job in service.store.list_kind(jobs.KIND.collection)
        if job.get("labels", {}).get(BILLING_LABEL) == label and jobs.KIND.is_unfinished(job)
    ]
    jobs.KIND.end(service, unfinished, grace_seconds=jobs.KIND.cancel_grace_seconds)
    for event in events.read(folder):
        operation = service.running.get(event.get("resource", ""))
        if isinstance(operation, threading.Event):
            operation.set()
    _await_operations(service)


def _await_operations(service: Service) -> None:
    begun = [one["name"] for one in _unfinished_operations(service)]
    deadline = time.monotonic() + OPERATIONS_TIMEOUT_SECONDS
    while left := {one["name"] for one in _unfinished_operations(service)}.intersection(begun):
        if time.monotonic() > deadline:
            names = ", ".join(sorted(left))
            seconds = OPERATIONS_TIMEOUT_SECONDS
            logger.warning("exit tasks start while %s has not ended after %g s", names, seconds)
            return
        if service.ending.wait(0.05):
            return


def _unfinished_operations(service: Service) -> list[Json]:
    return [one for one in service.store.list_kind("operations") if not one.get("done")]
