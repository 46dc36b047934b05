"""Journal of a pipeline run: written by its runner, read as Vertex AI's task details."""

import json
import os
import threading
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.errors import rpc_status
from vertex_local.machine.clock import now

FILE_NAME = "events.jsonl"
INTERRUPTION = "pipeline_interrupted"


class Journal:
    """Writer of FOLDER/events.jsonl, one JSON object per line; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        _drop_incomplete_line(self._path)
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Append an event with the current time."""
        with self._lock, self._path.open("a") as file:
            line = {"time": now(), "event": event, **fields}
            file.write(json.dumps(line, default=str) + "\n")


def read(folder: Path) -> list[Json]:
    """Return the events so far, without a line that is still being written."""
    try:
        text = (folder / FILE_NAME).read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def last(events: list[Json], event: str) -> Json | None:
    """Return the newest event of a kind, or None."""
    return next((found for found in reversed(events) if found["event"] == event), None)


def _drop_incomplete_line(path: Path) -> None:
    """Cut the journal after its last complete line; its writer may have been killed."""
    written = path.read_bytes() if path.exists() else b""
    complete = written.rfind(b"\n") + 1
    if complete < len(written):
        os.truncate(path, complete)


def task_details(events: list[Json], *, interrupted: str = "") -> list[Json]:
    """Return the tasks as `PipelineTaskDetail`s, in the order in which they started.

    Args:
        events: The events of a journal.
        interrupted: Error of the tasks without an end; empty while the run is running.
    """
    details: dict[int, Json] = {}
    for event in events:
        match event["event"]:
            case "task_started":
                details[event["id"]] = _started(event)
            case "task_ended":
                details[event["id"]] |= _ended(event, details[event["id"]])
            case "task_not_triggered":
                details[event["id"]] = {**_named(event), "state": "NOT_TRIGGERED"}
            case "pipeline_interrupted":
                _interrupt(details, event)
    for detail in details.values():
        if interrupted and detail["state"] == "RUNNING":
            error = rpc_status("FAILED_PRECONDITION", interrupted)
            detail.update(state="FAILED", endTime=events[-1]["time"], error=error)
    return list(details.values())


def _interrupt(details: dict[int, Json], event: Json) -> None:
    for detail in details.values():
        if detail["state"] == "RUNNING":
            message = event["reason"]
            if event["state"] == "CANCELLED":
                message = "The task was cancelled."
            error = rpc_status("FAILED_PRECONDITION", message)
            detail.update(state=event["state"], endTime=event["time"], error=error)
            detail["execution"]["state"] = "FAILED"


def _named(event: Json) -> Json:
    return {
        "taskId": str(event["id"]),
        "taskName": event["name"],
        "taskUniqueName": event["unique_name"],
        "createTime": event["time"],
        "execution": {
            "displayName": event["display_name"],
            "schemaTitle": "system.ContainerExecution",
        },
    }


def _started(event: Json) -> Json:
    detail = _named(event)
    detail["execution"]["state"] = "RUNNING"
    return {**detail, "startTime": event["time"], "state": "RUNNING"}


def _ended(event: Json, started: Json) -> Json:
    execution_state = {"SUCCEEDED": "COMPLETE", "SKIPPED": "CACHED"}.get(event["state"], "FAILED")
    ended: Json = {
        "state": event["state"],
        "endTime": event["time"],
        "execution": {
            **started["execution"],
            "state": execution_state,
            "metadata": {
                **{f"input:{name}": value for name, value in event["inputs"].items()},
                **{f"output:{name}": value for name, value in event["outputs"].items()},
                **({"note": event["note"]} if event.get("note") else {}),
            },
        },
        "inputs": _artifact_lists(event["input_artifacts"]),
        "outputs": _artifact_lists(event["output_artifacts"]),
    }
    if event["error"]:
        ended["error"] = rpc_status("FAILED_PRECONDITION", event["error"])
    return ended


def _artifact_lists(artifacts: Json) -> Json:
    return {name: {"artifacts": found} for name, found in artifacts.items()}
