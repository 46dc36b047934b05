"""GET …/customJobs/ID/replicas: state, CPU and memory of each replica of a job.

An addition to Vertex AI's API, which returns 404 here; a client then has the job's state and log.
"""

from pathlib import Path

import psutil

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import RunKind
from vertex_local.api.service import Service
from vertex_local.jobs.record import ROLES
from vertex_local.jobs.replica_env import task_name
from vertex_local.machine.files import last_lines
from vertex_local.processes import group as processes


def list_replicas(kind: RunKind, service: Service, call: Call) -> Json:
    """Return the replicas of a job, chief first, and its warnings; {} before they are started.

    `cpuSeconds` of a process include its children that have ended. `memoryBytes` is the current
    memory, `peakMemoryBytes` the maximum of a process that has ended. `container` is the name of a
    container, which has none of these.
    """
    name = call.name(kind.collection)
    service.store.get(name)  # raises NOT_FOUND
    folder = kind.folder_of(service, name)
    try:
        state = processes.read_state(folder)
    except FileNotFoundError:
        return {}
    return {
        "replicas": [
            _replica(folder, name, replica) for name, replica in state["replicas"].items()
        ],
        "warnings": state.get("warnings", []),
    }


def _replica(folder: Path, name: str, state: Json) -> Json:
    role, _, index = name.partition("/")
    task = task_name(ROLES.index(role), int(index))
    lines = last_lines(folder / f"{task}.log")
    status = {
        "name": name,
        "taskName": task,
        "state": state["state"].upper(),
        "exitCode": state["exit_code"],
        "restarts": state["restarts"],
        "startTime": state["started"],
        "endTime": state["ended"],
        "cpuSeconds": state.get("cpu_seconds"),
        "peakMemoryBytes": state.get("peak_memory_bytes"),
        "lastLine": lines.rpartition("\n")[2],
        "container": state.get("container"),
        **_live_usage(state),
    }
    return {key: value for key, value in status.items() if value not in (None, "")}


def _live_usage(state: Json) -> Json:
    """Return CPU and memory of a running process of this machine."""
    if state["state"] != "running" or state.get("container"):
        return {}
    try:
        process = psutil.Process(state["pid"])
        seconds = sum(process.cpu_times()[:4])  # its own, and its ended children's
        return {"cpuSeconds": round(seconds, 2), "memoryBytes": process.memory_info().rss}
    except psutil.Error:  # it has ended
        return {}
