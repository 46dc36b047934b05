"""GET …/customJobs/ID/replicas: state and usage of each replica of a job.

An addition to Vertex AI's API, which returns 404 here; a client then has the job's state and log.
"""

from pathlib import Path

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import RunKind
from vertex_local.api.service import Service
from vertex_local.jobs.record import ROLES
from vertex_local.jobs.replica_env import task_name
from vertex_local.machine import linux
from vertex_local.machine.files import last_lines
from vertex_local.processes import group as processes
from vertex_local.processes.usage.curve import Curve, read_curves


def list_replicas(kind: RunKind, service: Service, call: Call) -> Json:
    """Return the replicas of a job, chief first, and its warnings; {} before they are started.

    `cpuSeconds` counts since the last start and `memoryBytes` is the current memory; both exist
    only for processes. `container` is the name of a container. `usage` has samples of the whole
    process tree, taken `usageSeconds` after `usageStartTime`: null while the replica did not run,
    and missing where usage cannot be read.
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
            {**_replica(folder, name, one), **_curve(curves.replicas.get(name))}
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
        **(_current_usage(state) if state["pid"] and not state["ended"] else {}),
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _curve(curve: Curve | None) -> Json:
    if curve is None or curve.is_empty:
        return {}
    return {"usage": {"cores": curve.cores, "memoryBytes": curve.memory_bytes}}


def _current_usage(state: Json) -> Json:
    """Return the usage of a running process and its reaped children; {} if it has ended.

    Nothing for a container, whose process is that of `docker run`.
    """
    if "container" in state:
        return {}
    fields = linux.stat_fields(state["pid"])
    try:
        status = Path(f"/proc/{state['pid']}/status").read_text(errors="replace")
    except OSError:
        return {}
    if not fields:
        return {}
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    found = {"cpuSeconds": round(linux.cpu_seconds(fields), 2)}
    for key, field in (("memoryBytes", "VmRSS"), ("peakMemoryBytes", "VmHWM")):
        if field in sizes:  # missing for a zombie
            found[key] = int(sizes[field].split()[0]) * 1024
    return found
