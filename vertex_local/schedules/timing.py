"""When a schedule's runs are due, and what becomes of each: pure functions over its record.

`nextRunTime` is the first time that nothing has been decided about. `owedUntil`, which no client
sees: every time up to it is run, however late and one after the other.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from vertex_local.json_types import Json
from vertex_local.machine.clock import moment_of, timestamp
from vertex_local.schedules.cron import Cron

Change = Callable[[Json], None]

START, WAIT, SKIP = "start", "wait", "skip"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def restart(record: Json, now: datetime) -> None:
    """Lets the next run be the first one after `now`; what was due before is left out."""
    record.pop("owedUntil", None)
    # A run at the very start counts, one at the very moment of creation has begun already.
    start = moment_of(record["startTime"]) - timedelta(seconds=1)
    _set_next(record, max(now, start))


def owe(record: Json, now: datetime) -> None:
    """Has every time up to `now` be run."""
    record["owedUntil"] = timestamp(now)


def advance(record: Json) -> None:
    """Goes on from the time that was due to the one after it."""
    _set_next(record, moment_of(record["nextRunTime"]))


def settle(record: Json, now: datetime) -> None:
    """What was missed while nothing ran schedules: with catch-up all of it is owed, else none."""
    if record["state"] != "ACTIVE" or moment_of(record["nextRunTime"]) >= now:
        return
    if record.get("catchUp"):
        owe(record, now)
    else:
        restart(record, now)


def decide(record: Json, *, now: datetime, num_active: int) -> str:
    """What becomes of the time that is due: `start`, `wait` for other runs' end, or `skip`."""
    due = moment_of(record["nextRunTime"])
    following = Cron.parse(record["cron"]).next_after(due)
    is_late = following is not None and following <= now
    is_owed = due <= moment_of(record.get("owedUntil", timestamp(EPOCH)))
    is_owed = is_owed or (is_late and bool(record.get("catchUp")))
    if num_active >= most_active(record):
        return WAIT if is_owed or record.get("allowQueueing") else SKIP
    return SKIP if is_late and not is_owed else START


def most_active(record: Json) -> int:
    """How many runs of a schedule may go on at once.

    Vertex AI's `maxConcurrentRunCount` limits the starting only, which takes no time here; where
    it stands alone, it limits the runs.
    """
    return int(record.get("maxConcurrentActiveRunCount") or record["maxConcurrentRunCount"])


def _set_next(record: Json, after: datetime) -> None:
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
