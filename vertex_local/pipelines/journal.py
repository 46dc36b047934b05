"""The journal of a pipeline run: written by its runner, read as Vertex AI's task details."""

import json
import os
import threading
from pathlib import Path
from typing import Any

from vertex_local.json_types import Json
from vertex_local.machine.clock import now

FILE_NAME = "events.jsonl"
FAILED_PRECONDITION = 9  # google.rpc.Code that Vertex AI gives to a failed task


class EventLog:
    """Appends one JSON object a line to FOLDER/events.jsonl; threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        _drop_half_line(self._path)
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Appends an event with the present time."""
        with self._lock, self._path.open("a") as file:
            line = {"time": now(), "event": event, **fields}
            file.write(json.dumps(line, default=str) + "\n")


def read(folder: Path) -> list[Json]:
    """The events so far; a line that is still being written is left out."""
    try:
        text = (folder / FILE_NAME).read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def last(events: list[Json], event: str) -> Json | None:
    """The newest event of a kind."""
    return next((one for one in reversed(events) if one["event"] == event), None)


def _drop_half_line(path: Path) -> None:
    """Ends the journal with its last complete line; its writer was killed."""
    written = path.read_bytes() if path.exists() else b""
    complete = written.rfind(b"\n") + 1
    if complete < len(written):
        os.truncate(path, complete)


def task_details(events: list[Json], *, interrupted: str = "") -> list[Json]:
    """The events as `PipelineTaskDetail`s, in the order in which the tasks started.

    Args:
        events: What `read` returned.
        interrupted: Why tasks without an end have failed; empty while the run goes on.
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
            error = {"code": FAILED_PRECONDITION, "message": interrupted}
            detail.update(state="FAILED", endTime=events[-1]["time"], error=error)
    return list(details.values())


def _interrupt(details: dict[int, Json], event: Json) -> None:
    for detail in details.values():
        if detail["state"] == "RUNNING":
            message = event["reason"]
            if event["state"] == "CANCELLED":
                message = "The task was cancelled."
            error = {"code": FAILED_PRECONDITION, "message": message}
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
    named = _named(event)
    named["execution"]["state"] = "RUNNING"
    return {**named, "startTime": event["time"], "state": "RUNNING"}


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
            },
        },
        "inputs": _artifact_lists(event["input_artifacts"]),
        "outputs": _artifact_lists(event["output_artifacts"]),
    }
    if event["error"]:
        ended["error"] = {"code": FAILED_PRECONDITION, "message": event["error"]}
    return ended


def _artifact_lists(artifacts: Json) -> Json:
    return {name: {"artifacts": found} for name, found in artifacts.items()}
