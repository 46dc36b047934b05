"""Cloud Logging's `entries:list`, for the logs of replicas, batch predictions and steps.

A page token has the offset in each replica's file, so that a client that follows a log reads only
new lines: it repeats the request with the last token until there is none.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from vertex_local import Json
from vertex_local.api.pages import page_size
from vertex_local.api.query import grammar
from vertex_local.api.query.grammar import Joined, Restriction
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call, Route
from vertex_local.api.service import Service
from vertex_local.batch import resource as batch
from vertex_local.errors import invalid_argument
from vertex_local.jobs import resource as jobs
from vertex_local.pipelines import resource as pipelines
from vertex_local.processes.log_times import LineTimes

DEFAULT_PAGE_SIZE = 50
MAX_LINE_BYTES = 16 * 1024
CHUNK_BYTES = 1024 * 1024

TYPE_FIELD = "resource.type"
JOB_FIELD = "resource.labels.job_id"
TASK_FIELD = "resource.labels.task_name"
TIME_FIELD = "timestamp"
ALLOWED = (
    f'write {TYPE_FIELD}="ml_job" AND {JOB_FIELD}="ID", optionally followed by '
    f'AND {TASK_FIELD}="workerpool0-0" AND timestamp>="TIME"'
)
FIELDS = (TYPE_FIELD, JOB_FIELD, TASK_FIELD, TIME_FIELD)
PROJECT = re.compile(r"projects/([^/]*)", re.DOTALL)
ONLY_REPLICA = "workerpool0-0"
TASK_NAME = re.compile(r"workerpool(\d+)-(\d+)")
TOKEN = re.compile(r"v1(?::workerpool\d+-\d+=\d{1,18})*")


def list_entries(service: Service, call: Call) -> Json:
    """POST /v2/entries:list: return lines by time; replicas have equal shares of a page.

    There is a `nextPageToken` while the job runs or lines remain.
    """
    terms = _terms(str(call.body.get("filter", "")))
    since = terms.pop(TIME_FIELD, "")
    num_lines = page_size(str(call.body.get("pageSize") or ""), default=DEFAULT_PAGE_SIZE)
    if (order_by := call.body.get("orderBy", "")) not in ("", "timestamp", "timestamp asc"):
        raise invalid_argument(f'orderBy "{order_by}" is not supported; use "timestamp asc".')
    offsets = _offsets(str(call.body.get("pageToken", "")))
    # `is_running` is read before the files, so the log of a job that ends meanwhile is complete.
    job_name, is_running, paths = _logs_of(service, _projects(call.body), terms)
    entries: list[Json] = []
    is_exhausted = True
    for position, path in enumerate(paths):
        share = math.ceil((num_lines - len(entries)) / (len(paths) - position))
        lines, offset, reached_end = read_lines(
            path, offsets.get(_replica(path), 0), max_lines=share, is_growing=is_running
        )
        entries.extend(_entries(job_name, path, lines))
        offsets[_replica(path)] = offset
        is_exhausted = is_exhausted and reached_end
    shown = [entry for entry in entries if entry["timestamp"] >= since]
    shown.sort(key=lambda entry: str(entry["timestamp"]))
    response: Json = {"entries": shown} if shown else {}
    if is_running or not is_exhausted:
        response["nextPageToken"] = ":".join(["v1", *(f"{k}={v}" for k, v in offsets.items())])
    return response


def read_lines(
    path: Path, offset: int, *, max_lines: int, is_growing: bool
) -> tuple[list[tuple[int, str]], int, bool]:
    """Return lines from a byte offset as (offset, text), the next offset, and if it is the end.

    An incomplete last line of a growing file is not returned yet.
    """
    found: list[tuple[int, str]] = []
    with path.open("rb") as file:
        file.seek(offset)
        for raw, is_complete in _raw_lines(file):
            if len(found) == max_lines or (is_growing and not is_complete):
                return found, offset, not is_complete and is_growing
            found.append((offset, _text(raw)))
            offset = file.tell()
    return found, offset, True


def _raw_lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each line, cut after MAX_LINE_BYTES, and whether it is complete."""
    while raw := file.readline(MAX_LINE_BYTES + 1):
        end = raw
        while not end.endswith(b"\n"):
            end = file.readline(CHUNK_BYTES)
            if not end:
                break
        yield raw, bool(end)


def _text(raw: bytes) -> str:
    is_cut = len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n")
    text = raw[:MAX_LINE_BYTES].decode(errors="replace") if is_cut else raw.decode(errors="replace")
    last_shown = text.rstrip("\r\n").rpartition("\r")[2]  # a progress bar overwrites its line
    return f"{last_shown}… (cut)" if is_cut else last_shown


def _entries(job_name: str, path: Path, lines: list[tuple[int, str]]) -> list[Json]:
    times = LineTimes(path)
    name = _replica(path)
    return [_entry(job_name, name, start, text, times.at(start)) for start, text in lines]


def _entry(job_name: str, task_name: str, offset: int, text: str, moment: str) -> Json:
    job = ResourcePath.from_name(job_name)
    return {
        "logName": f"projects/{job.project}/logs/{task_name}",
        "resource": {"type": "ml_job", "labels": {"job_id": job.id, "task_name": task_name}},
        "severity": "DEFAULT",  # none is assigned
        "textPayload": text,
        "timestamp": moment,
        "insertId": f"{task_name}-{offset:012d}",
    }


def _logs_of(
    service: Service, projects: list[str], terms: dict[str, str]
) -> tuple[str, bool, list[Path]]:
    """Return name, whether it runs, and log files of a job or of a pipeline step."""
    job_id, replica = terms[JOB_FIELD], terms.get(TASK_FIELD, "")
    for kind in (jobs.KIND, batch.KIND):
        if job := _find(service, projects, kind.collection, job_id):
            paths = _log_paths(kind.folder_of(service, job["name"]), replica)
            return job["name"], kind.is_unfinished(job), paths
    run = _find(service, projects, pipelines.KIND.collection, job_id.partition(".")[0])
    path = pipelines.step_log(service, run["name"], job_id) if run else None
    if run and path and replica in ("", ONLY_REPLICA):
        is_running = pipelines.KIND.is_unfinished(run)
        return pipelines.step_job(run["name"], path.stem), is_running, [path]
    return "", False, []


def _replica(path: Path) -> str:
    """Return the name of the replica of a log file; a step of a pipeline has one replica."""
    return path.stem if TASK_NAME.fullmatch(path.stem) else ONLY_REPLICA


def _find(service: Service, projects: list[str], kind: str, resource_id: str) -> Json | None:
    """Return the job or run of an id in any location of these projects."""
    for name in service.store.names(kind):
        if name.endswith(f"/{resource_id}") and ResourcePath.from_name(name).project in projects:
            return service.store.find(name)
    return None


def _log_paths(folder: Path, task_name: str) -> list[Path]:
    paths = [path for path in folder.glob("workerpool*.log") if TASK_NAME.fullmatch(path.stem)]
    chosen = [path for path in paths if task_name in ("", path.stem)]
    return sorted(chosen, key=lambda path: [int(n) for n in re.findall(r"\d+", path.stem)])


def _terms(text: str) -> dict[str, str]:
    """Return the values of a filter's fields: equal ones, and the first time."""
    node = grammar.parse(text)
    terms: dict[str, str] = {}
    for term in node.nodes if isinstance(node, Joined) and node.operator == "AND" else [node]:
        if not isinstance(term, Restriction):
            raise invalid_argument(f"filter {text!r} does not name a job; {ALLOWED}.")
        operator = ">=" if term.field == TIME_FIELD else "="
        if term.field not in FIELDS or term.operator != operator:
            raise invalid_argument(f"filter field {term.field!r} is not supported so; {ALLOWED}.")
        if terms.setdefault(term.field, term.value) != term.value:
            raise invalid_argument(f"filter {text!r} has two values of {term.field}.")
    if terms.get(TYPE_FIELD, "ml_job") != "ml_job" or JOB_FIELD not in terms:
        raise invalid_argument(f"filter {text!r} does not name a job; {ALLOWED}.")
    return terms


def _projects(body: Json) -> list[str]:
    names = body.get("resourceNames")
    if not isinstance(names, list) or not names:
        raise invalid_argument('resourceNames is required; give ["projects/PROJECT"].')
    found = [PROJECT.fullmatch(str(name)) for name in names]
    if not all(found):
        raise invalid_argument(f'resourceNames {names} is not valid; give ["projects/PROJECT"].')
    return [match[1] for match in found if match]


def _offsets(token: str) -> dict[str, int]:
    if token and not TOKEN.fullmatch(token):
        raise invalid_argument(f'pageToken "{token}" is not a token of this service.')
    pairs = (part.split("=") for part in token.split(":")[1:])
    return {task: int(offset) for task, offset in pairs}


ROUTES = [Route("POST", "/v2/entries:list", list_entries)]
