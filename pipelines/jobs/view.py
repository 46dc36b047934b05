"""Training jobs and their replicas as tables and lines."""

from operator import itemgetter

from components.shared.vertex.api import VertexApi
from components.shared.vertex.task_details import job_warnings, replicas_of
from pipelines.jobs.log import last_line
from pipelines.resources.kinds import JOB
from pipelines.resources.names import short_name, when
from pipelines.resources.table import TextTable
from trainer import Json
from trainer.cluster.roles import ROLES

_MOMENTS = (("created", "createTime"), ("started", "startTime"), ("ended", "endTime"))


def newest_jobs(api: VertexApi) -> list[Json]:
    """Return all training jobs, newest first."""
    return sorted(api.list_resources("customJobs"), key=itemgetter("createTime"), reverse=True)


def jobs_table(jobs: list[Json]) -> TextTable:
    """Return a row for each training job."""
    rows = [
        (short_name(job["name"]), JOB.state_of(job), when(job), job["displayName"]) for job in jobs
    ]
    return TextTable(("JOB_ID", "STATUS", "CREATED", "NAME"), rows)


def job_summary(api: VertexApi, job: Json) -> list[str]:
    """Return lines with a job's name, state, times, output folder, error and warnings."""
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


def replicas_table(api: VertexApi, job: Json) -> TextTable:
    """Return a row for each replica: its status, if the service reports it, and last log line.

    MEMORY is the current use, or the peak after the end.
    """
    job_id = short_name(job["name"])
    rows = [_replica_row(replica) for replica in _replicas(api, job_id, job)]
    headings = ("REPLICA", "STATE", "EXIT", "RESTARTS", "CPU", "MEMORY", "LAST LINE")
    return TextTable(headings, rows)


def _replicas(api: VertexApi, job_id: str, job: Json) -> list[Json]:
    status = replicas_of(api, job_id)
    if status is not None:
        replicas: list[Json] = status.get("replicas", [])
        return replicas
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
        _memory(replica),
        str(replica.get("lastLine", "")).removeprefix(f"{name} "),
    )
    return (name, *("-" if cell in (None, "") else str(cell) for cell in cells))


def _cpu(replica: Json) -> str:
    return f"{replica['cpuSeconds']:.1f} s" if "cpuSeconds" in replica else ""


def _memory(replica: Json) -> str:
    """Return the memory in use, or the peak of a replica that has ended."""
    size = replica.get("memoryBytes", replica.get("peakMemoryBytes"))
    return f"{size / 1e6:.0f} MB" if size else ""
