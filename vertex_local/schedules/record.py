"""Record of a schedule: when runs are due and whether they start.

`nextRunTime` is the first time that has been neither started nor skipped. Two fields are hidden
from clients: every run up to `owedUntil` is started, however late, one after the other; `decidedAt`
is the time when `nextRunTime` was set, which is in the future only if the clock was ahead.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from vertex_local import Json
from vertex_local.machine.clock import moment_of, timestamp
from vertex_local.rules.cron import Cron

Change = Callable[[Json], None]

START, WAIT, SKIP = "start", "wait", "skip"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def restart(record: Json, now: datetime) -> None:
    """Set the next run to the first time after `now`; skip runs that were due before."""
    record.pop("owedUntil", None)
    start = moment_of(record["startTime"])
    # A run at startTime is included; a run at the time of creation is not.
    _set_next(record, start - timedelta(seconds=1) if start > now else now, now=now)


def is_set_back(record: Json, now: datetime) -> bool:
    """Return whether the clock was ahead of `now` when the next run was set."""
    return now < moment_of(record.get("decidedAt", timestamp(EPOCH)))


def restart_set_back(record: Json, now: datetime) -> None:
    """Restart from `now` after the clock was set back; a schedule that had ended in it goes on."""
    if record["state"] == "COMPLETED":
        record["state"] = "ACTIVE"
    restart(record, now)


def owe(record: Json, now: datetime) -> None:
    """Make all runs up to `now` obligatory, however late they start."""
    record["owedUntil"] = timestamp(now)


def advance(record: Json, now: datetime) -> None:
    """Move on to the next time."""
    _set_next(record, moment_of(record["nextRunTime"]), now=now)


def apply_catch_up(record: Json, now: datetime) -> None:
    """Queue the runs that were missed while no service ran, or skip them without catch-up."""
    if record["state"] != "ACTIVE" or moment_of(record["nextRunTime"]) >= now:
        return
    if record.get("catchUp"):
        owe(record, now)
    else:
        restart(record, now)


def decide(record: Json, *, now: datetime, num_active: int) -> str:
    """Return what to do with the run that is due: START, SKIP, or WAIT for other runs to end."""
    due = moment_of(record["nextRunTime"])
    following = Cron.parse(record["cron"]).next_after(due)
    is_late = following is not None and following <= now
    is_owed = due <= moment_of(record.get("owedUntil", timestamp(EPOCH)))
    is_owed = is_owed or (is_late and bool(record.get("catchUp")))
    if num_active >= max_active(record):
        return WAIT if is_owed or record.get("allowQueueing") else SKIP
    return SKIP if is_late and not is_owed else START


def max_active(record: Json) -> int:
    """Return the maximum number of active runs of a schedule.

    Vertex AI's `maxConcurrentRunCount` limits only the number of runs being started, which takes no
    time here; without the other limit, it limits the active runs.
    """
    return int(record.get("maxConcurrentActiveRunCount") or record["maxConcurrentRunCount"])


def _set_next(record: Json, after: datetime, *, now: datetime) -> None:
    record["decidedAt"] = timestamp(now)
    following = Cron.parse(record["cron"]).next_after(after)
    end = record.get("endTime")
    is_over = following is None or (end is not None and following > moment_of(end))
    if "maxRunCount" in record:
        is_over = is_over or int(record["startedRunCount"]) >= int(record["maxRunCount"])
    if following is None or is_over:
        record.pop("nextRunTime", None)
        record["state"] = "COMPLETED"
    else:
        record["nextRunTime"] = timestamp(following)
