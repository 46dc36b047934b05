"""GET …/customJobs/ID/replicas: state and usage of each replica of a job.

An addition to Vertex AI's API, which returns 404 here; a client then has the job's state and log.
"""

from itertools import pairwise
from pathlib import Path

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import RunKind
from vertex_local.api.service import Service
from vertex_local.jobs.record import ROLES
from vertex_local.jobs.replica_env import task_name
from vertex_local.machine.files import last_lines
from vertex_local.processes import group as processes
from vertex_local.processes.usage.curve import Curves, read_curves


def list_replicas(kind: RunKind, service: Service, call: Call) -> Json:
    """Return the replicas of a job, chief first, and its warnings; {} before they are started.

    `usage` has samples of the whole process tree, taken `usageSeconds` after `usageStartTime`: null
    while the replica did not run, and missing where usage cannot be read. `cpuSeconds` is their
    sum, and `memoryBytes` the last one; a process that has ended also has its `peakMemoryBytes`.
    `container` is the name of a container.
    """
    name = call.name(kind.collection)
    service.store.get(name)  # raises NOT_FOUND
    folder = kind.folder_of(service, name)
    try:
        state = processes.read_state(folder)
    except FileNotFoundError:
        return {}
    curves = read_curves(folder)
    return {
        "replicas": [
            {**_usage(curves, name), **_replica(folder, name, one)}
            for name, one in state["replicas"].items()
        ],
        "usageStartTime": curves.started,
        "usageSeconds": curves.seconds,
        "warnings": state.get("warnings", []),
    }


def _replica(folder: Path, name: str, state: Json) -> Json:
    role, _, index = name.partition("/")
    task = task_name(ROLES.index(role), int(index))
    lines = last_lines(folder / f"{task}.log")
    found = {
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
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _usage(curves: Curves, name: str) -> Json:
    curve = curves.replicas.get(name)
    if curve is None or curve.is_empty:
        return {}
    lasted = [end - start for start, end in pairwise([0.0, *curves.seconds])]
    used = sum((cores or 0.0) * seconds for cores, seconds in zip(curve.cores, lasted, strict=True))
    usage: Json = {"usage": {"cores": curve.cores, "memoryBytes": curve.memory_bytes}}
    if curve.memory_bytes[-1] is not None:
        usage |= {"cpuSeconds": round(used, 2), "memoryBytes": curve.memory_bytes[-1]}
    return usage
