"""What a training job's replicas wrote, by Cloud Logging's REST API."""

import time
from collections.abc import Iterator

from components.vertex.api import VertexApi
from pipelines.jobs.lifecycle import JOB, POLL_SECONDS
from pipelines.resources import ResourceError
from trainer.cluster.roles import ROLES
from trainer.json_types import Json


def message_of(entry: Json) -> str:
    """The text of one entry of Cloud Logging."""
    return str(entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", ""))


def log_lines(
    api: VertexApi,
    job_id: str,
    *,
    replica: str | None = None,
    has_times: bool = False,
    is_followed: bool = False,
) -> Iterator[str]:
    """Lines of a job's log, of all replicas or of one (`worker/1`); followed: until its end."""
    for entry in log_entries(api, job_id, replica=replica, is_followed=is_followed):
        yield line_of(entry, has_time=has_times)


def log_entries(
    api: VertexApi, job_id: str, *, replica: str | None = None, is_followed: bool = False
) -> Iterator[Json]:
    """Entries of a job's log, page by page; followed: those to come as well, until its end.

    Cloud Logging answers no page token once it has answered all there is; then what is newer than
    the last entry is asked for.
    """
    query = log_filter(job_id, replica)
    seen: set[str] = set()
    newest = ""
    while True:
        has_ended = JOB.is_final(JOB.get(api, job_id))  # asked first, so that its end is read whole
        since = f' AND timestamp>="{newest}"' if newest else ""
        for entry in _entries(api, query + since, is_patient=is_followed):
            newest = max(newest, str(entry.get("timestamp", "")))
            if entry.get("insertId") not in seen:
                seen.add(str(entry.get("insertId", "")))
                yield entry
        if has_ended or not is_followed:
            return
        time.sleep(POLL_SECONDS)


def _entries(api: VertexApi, query: str, *, is_patient: bool) -> Iterator[Json]:
    page_token = ""
    while True:
        entries, next_token = api.log_entries(query, page_token=page_token)
        yield from entries
        is_growing = next_token == page_token or not entries
        if not next_token or (is_growing and not is_patient):
            return
        if is_growing:
            time.sleep(POLL_SECONDS)
        page_token = next_token


def log_filter(job_id: str, replica: str | None = None) -> str:
    """Cloud Logging's filter for a job's entries, of all replicas or of one."""
    query = f'resource.type="ml_job" AND resource.labels.job_id="{job_id}"'
    if replica:
        query += f' AND resource.labels.task_name="{worker_pool_task(replica)}"'
    return query


def worker_pool_task(replica: str) -> str:
    """Vertex AI's name of a replica: `worker/1` is `workerpool1-1`."""
    role, slash, index = replica.partition("/")
    if role not in ROLES or not slash or not index.isdigit():
        roles = ", ".join(f"{role}/0" for role in ROLES)
        raise ResourceError(f"--replica {replica!r} is not a task; write it as one of {roles}")
    return f"workerpool{ROLES.index(role)}-{index}"


def replica_name(task: str) -> str:
    """`worker/1` for `workerpool1-1`; another name stays."""
    pool, dash, index = task.removeprefix("workerpool").partition("-")
    if not (dash and pool.isdigit() and int(pool) < len(ROLES)):
        return task
    return f"{ROLES[int(pool)]}/{index}"


def line_of(entry: Json, *, has_time: bool = False) -> str:
    """One line: the replica's name in front, and before it the time if that is asked for."""
    text = message_of(entry)
    task = entry.get("resource", {}).get("labels", {}).get("task_name", "")
    name = replica_name(str(task))
    if name and not text.startswith(f"{name} "):
        text = f"{name} {text}"
    return f"{entry.get('timestamp', '-'):<24} {text}" if has_time else text


def last_line(api: VertexApi, job_id: str, replica: str) -> str:
    """What a replica wrote last; empty if it has written nothing."""
    query = log_filter(job_id, replica)
    entries, _ = api.log_entries(query, order_by="timestamp desc", page_size=1)
    return message_of(entries[0]) if entries else ""
