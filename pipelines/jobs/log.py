"""Logs of training jobs and of a run's tasks, through Cloud Logging's REST API."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from components.shared.vertex.api import VertexApi
from pipelines.errors import ResourceError
from pipelines.resources.kinds import JOB, Kind
from trainer import Json
from trainer.cluster.roles import ROLES

Label = TypeVar("Label")


class LogReader:
    """The log of a job, or of one of its replicas, read as it grows."""

    def __init__(self, api: VertexApi, job_id: str, *, replica: str | None = None) -> None:
        self._api = api
        self._filter = self._query = log_filter(job_id, replica)
        self._page_token = ""
        self._newest = ""
        self._seen: set[str] = set()

    def new_entries(self) -> Iterator[Json]:
        """Yield the entries written since the last call.

        Cloud Logging returns no page token with its last page; from then on the query asks for
        entries from the newest timestamp on. The local service returns a token until the job ends.
        """
        while True:
            entries, next_token = self._api.log_entries(self._query, page_token=self._page_token)
            for entry in entries:
                self._newest = max(self._newest, str(entry.get("timestamp", "")))
                entry_id = entry.get("insertId")
                if entry_id not in self._seen:
                    yield entry
                if entry_id:
                    self._seen.add(entry_id)
            has_more = bool(entries) and next_token not in ("", self._page_token)
            self._page_token = next_token
            if not next_token and self._newest:
                self._query = f'{self._filter} AND timestamp>="{self._newest}"'
            if not has_more:
                return


def follow_logs(
    api: VertexApi,
    kind: Kind,
    name: str,
    *,
    readers_of: Callable[[Json], Iterable[tuple[Label, LogReader]]],
    is_followed: bool,
) -> Iterator[tuple[Label, Json]]:
    """Yield the log entries of a job or run, each with its reader's label.

    `readers_of` returns the labels and readers of the logs that exist. With `is_followed` new
    entries are yielded, too, until the end.
    """
    for resource in kind.polled(api, name):  # the last entries are read after the end
        for label, reader in readers_of(resource):
            for entry in reader.new_entries():
                yield label, entry
        if not is_followed:
            return


def job_log_lines(
    api: VertexApi,
    job_id: str,
    *,
    replica: str | None = None,
    is_followed: bool = False,
) -> Iterator[str]:
    """Yield the lines of a job's log, of all replicas or of one (`worker/1`)."""
    readers = [("", LogReader(api, job_id, replica=replica))]
    entries = follow_logs(api, JOB, job_id, readers_of=lambda job: readers, is_followed=is_followed)
    for _, entry in entries:
        yield line_of(entry)


def last_line(api: VertexApi, job_id: str, replica: str) -> str:
    """Return a replica's last log line, or ""."""
    query = log_filter(job_id, replica)
    entries, _ = api.log_entries(query, order_by="timestamp desc", page_size=1)
    return message_of(entries[0]) if entries else ""


def message_of(entry: Json) -> str:
    """Return the text of a log entry."""
    return str(entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", ""))


def line_of(entry: Json) -> str:
    """Return a log entry as a line: its replica, and its text."""
    text = message_of(entry)
    task = entry.get("resource", {}).get("labels", {}).get("task_name", "")
    name = replica_name(str(task))
    if name and not text.startswith(f"{name} "):
        text = f"{name} {text}"
    return text


def log_filter(job_id: str, replica: str | None = None) -> str:
    """Return Cloud Logging's filter for the entries of a job, or of one of its replicas."""
    query = f'resource.type="ml_job" AND resource.labels.job_id="{job_id}"'
    if replica:
        query += f' AND resource.labels.task_name="{worker_pool_task(replica)}"'
    return query


def worker_pool_task(replica: str) -> str:
    """Return Vertex AI's name of a replica: `workerpool1-1` for `worker/1`."""
    role, slash, index = replica.partition("/")
    if role not in ROLES or not slash or not index.isdigit():
        roles = ", ".join(f"{role}/0" for role in ROLES)
        raise ResourceError(f"--replica {replica!r} is not a replica; write it as one of {roles}")
    return f"workerpool{ROLES.index(role)}-{index}"


def replica_name(task: str) -> str:
    """Return `worker/1` for `workerpool1-1`; any other name as it is."""
    pool, dash, index = task.removeprefix("workerpool").partition("-")
    if not (dash and pool.isdigit() and int(pool) < len(ROLES)):
        return task
    return f"{ROLES[int(pool)]}/{index}"
