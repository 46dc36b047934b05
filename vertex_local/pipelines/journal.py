"""Journal of a pipeline run: written by its runner, read as Vertex AI's task details."""

import json
import logging
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.errors import rpc_status
from vertex_local.machine.clock import now

logger = logging.getLogger(__name__)

FILE_NAME = "events.jsonl"
INTERRUPTION = "pipeline_interrupted"
ITERATION = "-iteration-"  # in the scope of a task, which names the iterations that it is in
MAX_INPUTS = 200
CHANNEL = "pipelinechannel--"  # prefix of the inputs that the compiler adds for placeholders
ARTIFACT = "summary"


class Journal:
    """Writer of FOLDER/events.jsonl, one JSON object per line; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        _drop_incomplete_line(self._path)
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Append an event with the current time, completely or, if the disk is full, not at all."""
        with self._lock, self._path.open("ab", buffering=0) as file:
            content = {"time": now(), "event": event, **fields}
            unwritten, size = json.dumps(content, default=str).encode() + b"\n", file.tell()
            try:
                while unwritten:
                    unwritten = unwritten[file.write(unwritten) :]
            except OSError:
                file.truncate(size)
                raise


def read(folder: Path) -> list[Json]:
    """Return the events so far, without a line that is still being written or is damaged."""
    path = folder / FILE_NAME
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    events = [_event(line, path, number) for number, line in enumerate(lines, start=1)]
    return [event for event in events if event]


def _event(line: bytes, path: Path, number: int) -> Json:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if isinstance(event, dict) and "event" in event:
        return event
    _warn_of_damage(path, number)
    return {}


@lru_cache(maxsize=1000)
def _warn_of_damage(path: Path, number: int) -> None:
    """Log a damaged line, once per process."""
    logger.warning("%s: line %d is not a JSON event; it is ignored", path, number)


@lru_cache(maxsize=1000)
def warn_of_loss(folder: Path) -> None:
    """Log that the journal of an ended run has no events, once per process."""
    path = folder / FILE_NAME
    logger.warning("%s is missing or empty: the run's tasks are not shown; run it again", path)


def last(events: list[Json], event: str) -> Json | None:
    """Return the newest event of a kind, or None."""
    return next((found for found in reversed(events) if found["event"] == event), None)


def _drop_incomplete_line(path: Path) -> None:
    """Cut the journal after its last complete line; its writer may have been killed."""
    written = path.read_bytes() if path.exists() else b""
    complete = written.rfind(b"\n") + 1
    if complete < len(written):
        os.truncate(path, complete)


def failure(start: Json, inputs: Json, error: str) -> tuple[str, str]:
    """Return the name of a failed task and its error, in a loop with its iteration and inputs."""
    iterations = [part for part in start["scope"].split("/") if ITERATION in part]
    if not iterations:
        return start["name"], error
    values = ", ".join(f"{name.removeprefix(CHANNEL)}={value!r}" for name, value in inputs.items())
    return f"{start['name']} in {'/'.join(iterations)}", f"({values[:MAX_INPUTS]}) {error}"


def task_details(events: list[Json], *, interrupted: str = "") -> list[Json]:
    """Return the tasks as `PipelineTaskDetail`s, in the order in which they started.

    `interrupted` is the error of those without an end; empty while the run is running.
    """
    details: dict[int, Json] = {}
    for event in events:
        match event["event"]:
            case "task_started":
                detail = details[event["id"]] = _named(event)
                detail["execution"]["state"] = "RUNNING"
                detail |= {"startTime": event["time"], "state": "RUNNING"}
            case "task_inputs" if event["id"] in details:
                details[event["id"]] |= _with_inputs(event, details[event["id"]])
            case "task_ended" if event["id"] in details:  # its start may be a damaged line
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


def _ended(event: Json, started: Json) -> Json:
    ended = _with_inputs(event, started)
    ended |= {"state": event["state"], "endTime": event["time"]}
    ended["outputs"] = _artifact_lists(event["output_artifacts"])
    execution = ended["execution"]
    states = {"SUCCEEDED": "COMPLETE", "SKIPPED": "CACHED"}
    execution["state"] = states.get(event["state"], "FAILED")
    execution["metadata"] |= {f"output:{name}": value for name, value in event["outputs"].items()}
    if event.get("note"):
        execution["metadata"]["note"] = event["note"]
    if event["error"]:
        ended["error"] = rpc_status("FAILED_PRECONDITION", event["error"])
    return ended


def _with_inputs(event: Json, started: Json) -> Json:
    metadata = {f"input:{name}": value for name, value in event["inputs"].items()}
    return {
        "execution": {**started["execution"], "metadata": metadata},
        "inputs": _artifact_lists(event["input_artifacts"]),
    }


def _artifact_lists(artifacts: Json) -> Json:
    return {name: {"artifacts": list(map(_artifact, made))} for name, made in artifacts.items()}


def _artifact(artifact: Json) -> Json:
    """Return a RuntimeArtifact as Vertex AI's Artifact."""
    return {
        "displayName": artifact["name"],
        "uri": artifact["uri"],
        "schemaTitle": artifact["type"].get("schemaTitle", ""),
        "state": "LIVE",
        "metadata": artifact["metadata"],
    }


def run_context(events: list[Json]) -> Json:
    """Return the `jobDetail` of an ended run, with its facts in the context; {} without any."""
    ends = [event for event in events if event["event"] == "task_ended"]
    for event in reversed(ends):
        for artifact in event["output_artifacts"].get(ARTIFACT, []):
            facts = {
                key: value
                for key, value in artifact.get("metadata", {}).items()
                if isinstance(value, str | int | float) and not isinstance(value, bool)
            }
            facts["summary_uri"] = artifact["uri"]
            return {"jobDetail": {"pipelineRunContext": {"metadata": facts}}}
    return {}
