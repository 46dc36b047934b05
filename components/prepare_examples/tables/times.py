"""Parsing of a table's time column: Unix seconds, the city portal's format, and BigQuery's.

The city publishes Chicago's local time, rounded to quarters of an hour, and examples hold the same:
seconds of wall time since 1970. BigQuery's table labels that wall time UTC. In files from other
sources, a time with a zone or an offset is an instant; it is converted to wall time in `time_zone`.
"""

import zoneinfo
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.tables.quarantine import BadRows
from trainer.workloads.taxi_table import LIMITS, TIME

FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")
# The offset at the end of a time: Z, +02, -0500 or -05:00. "UTC" does not count as one, because
# BigQuery labels the city's wall time with it.
OFFSET = r"(:\d\d(?:\.\d+)?) ?(Z|[+-]\d\d(?::?\d\d)?)$"
DAY_SECONDS, HOUR_SECONDS, QUARTER_SECONDS = 86_400, 3_600, 900
THURSDAY = 4  # 1 January 1970, counted from Sunday = 0


def wall_times(column: pa.Array, *, time_zone: str) -> pa.Array:
    """Return timestamps or dates as naive seconds; with a zone, as wall time in `time_zone`."""
    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("s"))
    naive = column.view(pa.timestamp(column.type.unit))
    seconds = pc.floor_temporal(naive, unit="second").cast(pa.timestamp("s"))
    if not column.type.tz:
        return seconds
    shifts = _offsets(seconds.cast(pa.int64()).fill_null(0), zoneinfo.ZoneInfo(time_zone))
    return pc.add(seconds.cast(pa.int64()), shifts).cast(pa.timestamp("s"))


def _offsets(seconds: pa.Array, zone: zoneinfo.ZoneInfo) -> pa.Array:
    """Return how many seconds a zone is ahead of UTC at each moment.

    Computed by Python, once for each quarter of an hour: Arrow needs the system's time zone
    database, which small container images do not have.
    """
    limits = LIMITS[TIME]
    possible = seconds.to_numpy(zero_copy_only=False).clip(limits.low, limits.high)
    quarters, places = np.unique(possible // QUARTER_SECONDS, return_inverse=True)
    moments = (datetime.fromtimestamp(int(q) * QUARTER_SECONDS, zone) for q in quarters)
    shifts = [int((moment.utcoffset() or timedelta()).total_seconds()) for moment in moments]
    return pa.array(np.array(shifts, np.int64)[places])


def parse_times(column: pa.Array, bad: BadRows, *, zones: Counter[str], time_zone: str) -> pa.Array:
    """Return Unix seconds, int64, of texts or naive timestamps; texts that are not times are null.

    Args:
        column: texts, `wall_times` or numbers; numbers are returned unchanged.
        bad: gets the rows of texts that are not times.
        zones: counts the texts with an offset, by offset.
        time_zone: of the wall time that those are converted to.
    """
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_string(column.type):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        seconds = _parse_texts(column, zones, time_zone)
    wrong = pc.and_(seconds.is_null(), column.is_valid()).to_numpy(zero_copy_only=False)
    bad.add(np.flatnonzero(wrong), TIME, lambda row: f"{column[row].as_py()!r} is not a time")
    return seconds


def hours(seconds: pa.Array) -> pa.Array:
    """Return the hour of the day, 0 to 23."""
    return pc.divide(_remainder(seconds, DAY_SECONDS), HOUR_SECONDS)


def weekdays(seconds: pa.Array) -> pa.Array:
    """Return the day of the week, 1 = Sunday to 7 = Saturday."""
    days = pc.divide(seconds, DAY_SECONDS)
    return pc.add(_remainder(pc.add(days, THURSDAY), 7), 1)


def months(seconds: pa.Array) -> pa.Array:
    """Return the month, 1 to 12."""
    return pc.month(seconds.cast(pa.timestamp("s")))


def _remainder(values: pa.Array, divisor: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(pc.divide(values, divisor), divisor))


def _parse_texts(column: pa.Array, zones: Counter[str], time_zone: str) -> pa.Array:
    is_number = pc.match_substring_regex(column, r"^\d{1,12}(\.0*)?$")
    digits = pc.if_else(is_number, pc.replace_substring_regex(column, r"\..*", ""), None)
    found = digits.cast(pa.int64())
    plain = pc.replace_substring_regex(column, OFFSET, r"\1")
    plain = pc.replace_substring_regex(plain, r"(\.\d+)?( ?UTC)?$", "")
    plain = pc.replace_substring_regex(plain, r"^(\d{4}-\d\d-\d\d)T", r"\1 ")
    for spelling in FORMATS:
        parsed = pc.strptime(plain, format=spelling, unit="s", error_is_null=True)
        found = pc.coalesce(found, parsed.cast(pa.int64()))
    offsets = pc.replace_substring_regex(column, f"^.*{OFFSET}", r"\2")
    has_offset = pc.match_substring_regex(column, OFFSET).fill_null(False)
    if not pc.any(has_offset).as_py():
        return found
    counted = offsets.filter(has_offset).value_counts().to_pylist()
    zones.update({one["values"]: one["counts"] for one in counted})
    shifts = [_offset_seconds(one["values"]) for one in counted]
    known = pa.array([one["values"] for one in counted], pa.string())
    shift = pa.array(shifts, pa.int64()).take(pc.index_in(offsets, known))
    instants = pc.subtract(found, shift).view(pa.timestamp("s", "UTC"))
    walls = wall_times(instants, time_zone=time_zone).cast(pa.int64())
    return pc.if_else(has_offset, walls, found)


def _offset_seconds(text: str) -> int:
    """Return the seconds of Z, +02, -0500 or -05:00."""
    digits = text.strip("Z+-").replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * HOUR_SECONDS + int(digits[2:]) * 60
    return -seconds if text.startswith("-") else seconds


UNITS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "hour": hours,
    "weekday": weekdays,
    "month": months,
}
