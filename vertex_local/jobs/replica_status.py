"""GET …/customJobs/ID/replicas: state and usage of each replica of a job.

An addition to Vertex AI's API, which returns 404 here; a client then has the job's state and log.
"""

import os
from pathlib import Path

from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import RunKind
from vertex_local.api.service import Service
from vertex_local.jobs.replica_env import task_name
from vertex_local.jobs.worker_pools import ROLES
from vertex_local.json_types import Json
from vertex_local.machine.files import last_lines
from vertex_local.processes import group as processes
from vertex_local.processes.usage.curve import Curve, read_curves

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def list_replicas(kind: RunKind, service: Service, call: Call) -> Json:
    """Return the replicas of a job, chief first, and its warnings; {} before they are started.

    `cpuSeconds` counts since the last start and `memoryBytes` is the current memory; both exist
    only for processes. `container` is the name of a container. `usage` has samples of the whole
    process tree, taken `usageSeconds` after `usageStartTime`: null while the replica did not run,
    and missing where usage cannot be read.
    """
    name = kind.name(call)
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
        **(_usage_now(state) if state["pid"] and not state["ended"] else {}),
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _curve(curve: Curve | None) -> Json:
    if curve is None or curve.is_empty:
        return {}
    return {"usage": {"cores": curve.cores, "memoryBytes": curve.memory_bytes}}


def _usage_now(state: Json) -> Json:
    """Return nothing for a container, whose process is that of `docker run`."""
    return {} if "container" in state else usage(state["pid"])


def usage(pid: int) -> Json:
    """Return the usage of a running process and its reaped children; {} if it has ended."""
    proc = Path("/proc") / str(pid)
    try:
        _, _, rest = (proc / "stat").read_text(errors="replace").rpartition(")")
        status = (proc / "status").read_text(errors="replace")
    except OSError:
        return {}
    ticks = sum(map(int, rest.split()[11:15]))  # utime, stime, cutime, cstime: proc(5)
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    found = {"cpuSeconds": round(ticks / _TICKS_PER_SECOND, 2)}
    for key, field in (("memoryBytes", "VmRSS"), ("peakMemoryBytes", "VmHWM")):
        if field in sizes:  # missing for a zombie
            found[key] = int(sizes[field].split()[0]) * 1024
    return found
