"""`trainyard prune`: decide which runs of this machine to remove, and remove them."""

import dataclasses
import datetime
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from components.model_version.registry import list_versions
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import RUN_LABEL, label_of
from pipelines.errors import ResourceError
from pipelines.resources.kinds import JOB, RUN
from pipelines.resources.names import duration, get_model, short_name
from pipelines.resources.table import TextTable
from pipelines.runs.removal.files import RunFiles
from pipelines.runs.request import RUN_NAME
from trainer import Json

RUN_FIELDS = "name,state,createTime,endTime,runtimeConfig.gcsOutputDirectory"
# `trainyard run` creates the folder before the service has a record of the run.
JUST_STARTED_SECONDS = 3600
NUM_THREADS = 4
MEGABYTE, GIGABYTE = 1e6, 1e9


@dataclass(frozen=True, kw_only=True)
class OldRun:
    """A run that may be removed; times in seconds since 1970, `ended` None for unfinished runs.

    `reason` is the decision: why it is kept, "" to remove it.
    """

    name: str
    state: str
    created: float
    ended: float | None
    has_record: bool = True
    is_elsewhere: bool = False
    jobs: tuple[Json, ...] = ()
    num_bytes: int = 0
    reason: str = ""


def find_runs(files: RunFiles) -> list[OldRun]:
    """Return all runs of this machine, newest first."""
    records = list(files.api.list_resources(RUN.collection, readMask=RUN_FIELDS))
    known = {short_name(record["name"]) for record in records}
    runs = [_recorded(record, files) for record in records]
    for name in files.names_without_record(known):
        changed = (files.root / name).stat().st_mtime
        runs.append(OldRun(name=name, state="-", created=changed, ended=changed, has_record=False))
    jobs = files.jobs_by_run()
    runs = [dataclasses.replace(run, jobs=tuple(jobs.get(run.name, ()))) for run in runs]
    return sorted(runs, key=lambda run: run.created, reverse=True)


def decide(
    files: RunFiles,
    *,
    older_than_seconds: float = math.inf,
    max_gb: float = math.inf,
    keep: Mapping[str, str] = {},
    now: float | None = None,
) -> list[OldRun]:
    """Return the runs with their sizes and the decisions, newest first; change nothing.

    `keep` has runs to keep, each with the reason.

    To remove are the runs that ended longer ago than that, and the oldest of the others until all
    that stay have at most `max_gb` gigabytes.
    """
    now = time.time() if now is None else now
    runs = find_runs(files)
    sizes = {run.name: files.size_of(run.name, list(run.jobs)) for run in runs}
    reasons = {run.name: keep.get(run.name) or _protection(run, now=now) for run in runs}
    room = max_gb * GIGABYTE - sum(sizes[name] for name, reason in reasons.items() if reason)
    for run in runs:
        is_young = now - (run.ended or now) < older_than_seconds
        if is_young and not reasons[run.name]:
            room -= sizes[run.name]
            reasons[run.name] = "it is neither too old nor too much" if room >= 0 else ""
    for kept in [name for name, reason in reasons.items() if reason]:
        for used in files.used_by(kept):
            if not reasons.get(used, "-"):
                reasons[used] = f"{kept} uses its files"
    return [
        dataclasses.replace(run, reason=reasons[run.name], num_bytes=sizes[run.name])
        for run in runs
    ]


def named_runs(api: VertexApi, names: Sequence[str]) -> dict[str, str]:
    """Return the runs that names of runs, models and versions stand for, each with its name.

    Raises:
        VertexError: NOT_FOUND; a name is of neither.
    """
    kept: dict[str, str] = {}
    for name in names:
        if RUN_NAME.fullmatch(name) and (run := RUN.find(api, name)):
            kept[short_name(run["name"])] = f"--keep {name}"
            continue
        version = get_model(api, name)
        versions = [version] if "@" in name else list_versions(api, version["name"])
        runs = {made: f"--keep {name}" for one in versions if (made := label_of(one, RUN_LABEL))}
        if not runs:
            raise ResourceError(f"--keep {name}: uploaded by hand, no run made it")
        kept |= runs
    return kept


def _protection(run: OldRun, *, now: float) -> str:
    """Return the reason to keep a run whatever its age and size, or ""."""
    if run.ended is None:
        return "it is unfinished"
    if not all(map(JOB.is_final, run.jobs)):
        return "its training job is unfinished"
    if run.is_elsewhere:
        return "its files are in another folder"
    is_new = not run.has_record and now - run.ended < JUST_STARTED_SECONDS
    return "it may have just started" if is_new else ""


def prune(files: RunFiles, runs: list[OldRun]) -> Iterator[OldRun]:
    """Remove the runs without a reason to keep them; yield each with the decision as carried out.

    An error is the reason of its run; the others are still removed.
    """
    with ThreadPoolExecutor(NUM_THREADS) as threads:
        yield from threads.map(partial(_carry_out, files), runs)
    files.remove_leftovers()


def _carry_out(files: RunFiles, run: OldRun) -> OldRun:
    if run.reason:
        return run
    try:
        files.remove(run.name, jobs=list(run.jobs), has_record=run.has_record)
    # A run has started to use its files, or a request or a file's removal failed.
    except (ResourceError, VertexError, OSError) as error:
        return dataclasses.replace(run, reason=str(error))
    return run


def prune_table(runs: list[OldRun]) -> TextTable:
    """Return a row for each run: its state, size, decision and reason."""
    now = time.time()
    rows = [
        (
            run.name,
            run.state,
            "-" if run.ended is None else duration(now - run.ended),
            f"{run.num_bytes / MEGABYTE:,.1f}",
            "keep" if run.reason else "remove",
            run.reason,
        )
        for run in runs
    ]
    return TextTable(("RUN", "STATE", "ENDED", "MB", "", "WHY"), rows)


def delete_run(files: RunFiles, name: str) -> str:
    """Delete a run that has ended, and its files unless other runs use them; return which, or "".

    Raises:
        ResourceError: it has not ended, or an unfinished run uses its files.
    """
    runs = {run.name: run for run in find_runs(files)}
    run = runs.get(name)
    if run is None or run.ended is None or run.is_elsewhere:
        RUN.delete(files.api, name)  # raises if there is none, or if it has not ended
        return ""
    if not all(map(JOB.is_final, run.jobs)):
        raise ResourceError(f"a training job of {name} is unfinished; see trainyard jobs list")
    later = [other.name for other in runs.values() if other.created >= run.created]
    users = [other for other in later if other != name and name in files.used_by(other)]
    if not users:
        files.remove(name, jobs=list(run.jobs), has_record=run.has_record)
        return ""
    files.keep_package(name)
    RUN.delete(files.api, name)
    verb = "uses" if len(users) == 1 else "use"
    return f"its files are kept: {', '.join(users)} {verb} them"


def _recorded(record: Json, files: RunFiles) -> OldRun:
    root = str(record.get("runtimeConfig", {}).get("gcsOutputDirectory", "")).rstrip("/")
    ended = str(record.get("endTime") or record["createTime"])
    return OldRun(
        name=short_name(record["name"]),
        state=RUN.state_of(record),
        created=_seconds(record["createTime"]),
        ended=_seconds(ended) if RUN.is_final(record) else None,
        is_elsewhere=root != str(files.root),
    )


def _seconds(time_text: str) -> float:
    return datetime.datetime.fromisoformat(time_text).timestamp()
