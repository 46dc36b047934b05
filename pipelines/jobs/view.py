"""A training job and its replicas as a person reads them."""

import datetime
from typing import Any

from components.run_summary.usage import MEBIBYTE, maximum, mean, sparkline, usages_of
from components.vertex.api import VertexApi
from components.vertex.job_warnings import job_warnings, replicas_of
from pipelines.jobs.lifecycle import JOB
from pipelines.jobs.log import last_line
from pipelines.resources import Table, short_name, when
from trainer.cluster.roles import ROLES
from trainer.json_types import Json

_MEGABYTE = 1024 * 1024
_MOMENTS = (("created", "createTime"), ("started", "startTime"), ("ended", "endTime"))


def job_summary(api: VertexApi, job: Json) -> list[str]:
    """What a person asks first: state, times, why it failed, where its output is."""
    spec: Json = job.get("jobSpec", {})
    scheduling: Json = spec.get("scheduling", {})
    times = [f"{what} {when(job, key)}" for what, key in _MOMENTS if job.get(key)]
    rows = [
        ("job", short_name(job["name"])),
        ("name", job.get("displayName", "")),
        ("state", JOB.state_of(job)),
        ("times", ", ".join(times)),
        ("timeout", scheduling.get("timeout", "")),
        ("output", spec.get("baseOutputDirectory", {}).get("outputUriPrefix", "")),
        ("error", job.get("error", {}).get("message", "")),
        *(("warning", warning) for warning in job_warnings(api, short_name(job["name"]))),
    ]
    return [f"{name:<8} {value}" for name, value in rows if value]


def replicas_table(api: VertexApi, job: Json) -> Table:
    """How each replica fares: what the service tells of it, or else its last line in the log.

    CORES is how many it has kept busy on average; MEMORY what it takes now, or took at the most.
    """
    job_id = short_name(job["name"])
    rows = [_replica_row(replica) for replica in _replicas(api, job_id, job)]
    headings = ("REPLICA", "STATE", "EXIT", "RESTARTS", "CPU", "CORES", "MEMORY", "LAST LINE")
    return Table(headings, rows)


def usage_table(api: VertexApi, job: Json) -> Table | None:
    """What each replica with all that it has started has used; None where nothing is known of it.

    The bars of a column have one scale, from zero.
    """
    usages = usages_of(replicas_of(api, short_name(job["name"])))
    if not usages:
        return None
    highest_cores = max(maximum(usage.cores) for usage in usages)
    highest_memory = max(maximum(usage.memory_bytes) for usage in usages)
    rows: list[tuple[str, ...]] = [
        (
            usage.name,
            sparkline(usage.cores, highest=highest_cores),
            f"{mean(usage.cores):.1f}, at most {maximum(usage.cores):.1f}",
            sparkline(usage.memory_bytes, highest=highest_memory),
            f"{maximum(usage.memory_bytes) / MEBIBYTE:,.0f} MB",
        )
        for usage in usages
    ]
    lasted = f"{usages[0].seconds[-1]:.0f} s"
    return Table(("REPLICA", f"CPU OVER {lasted}", "CORES", "MEMORY", "AT MOST"), rows)


def _replicas(api: VertexApi, job_id: str, job: Json) -> list[Json]:
    told = replicas_of(api, job_id)
    if told is not None:
        found: list[Json] = told.get("replicas", [])
        return found
    pools = job.get("jobSpec", {}).get("workerPoolSpecs", [])
    names = [
        f"{role}/{index}"
        for role, pool in zip(ROLES, pools, strict=False)
        for index in range(int(pool.get("replicaCount", 0)))
    ]
    return [{"name": name, "lastLine": last_line(api, job_id, name)} for name in names]


def _replica_row(replica: Json) -> tuple[str, ...]:
    name = replica["name"]
    cells = (
        replica.get("state"),
        replica.get("exitCode"),
        replica.get("restarts"),
        _cpu(replica),
        _cores(replica),
        _memory(replica),
        str(replica.get("lastLine", "")).removeprefix(f"{name} "),
    )
    return (name, *("-" if cell in (None, "") else str(cell) for cell in cells))


def _cpu(replica: Json) -> str:
    return f"{replica['cpuSeconds']:.1f} s" if "cpuSeconds" in replica else ""


def _cores(replica: Json) -> str:
    """How many cores it has kept busy, on average."""
    lasted = _seconds_between(replica.get("startTime"), replica.get("endTime"))
    return f"{replica['cpuSeconds'] / lasted:.1f}" if "cpuSeconds" in replica and lasted else ""


def _memory(replica: Json) -> str:
    """What it takes now; once it has ended, the most that it took."""
    size = replica.get("memoryBytes", replica.get("peakMemoryBytes"))
    return f"{size / _MEGABYTE:.0f} MB" if size else ""


def _seconds_between(start: Any, end: Any) -> float:
    if not start:
        return 0.0
    began = datetime.datetime.fromisoformat(start)
    ended = datetime.datetime.fromisoformat(end) if end else datetime.datetime.now(datetime.UTC)
    return (ended - began).total_seconds()
