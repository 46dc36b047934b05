"""Training jobs and their replicas as tables and lines."""

from operator import itemgetter

from components.shared.vertex.api import VertexApi
from components.shared.vertex.task_details import error_of, job_warnings, replicas_of
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
        ("error", error_of(job)),
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
    """Return a replica's cells; its memory in use, or the peak if it has ended."""
    name, seconds = replica["name"], replica.get("cpuSeconds")
    size = replica.get("memoryBytes", replica.get("peakMemoryBytes"))
    cells = (
        replica.get("state"),
        replica.get("exitCode"),
        replica.get("restarts"),
        None if seconds is None else f"{seconds:.1f} s",
        size and f"{size / 1e6:.0f} MB",
        str(replica.get("lastLine", "")).removeprefix(f"{name} "),
    )
    return (name, *("-" if cell in (None, "") else str(cell) for cell in cells))
