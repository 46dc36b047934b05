"""The start of a trip in every spelling that the data has: Unix seconds, the portal's, BigQuery's.

The city publishes Chicago's local time, rounded to quarters of an hour, and so do examples: seconds
of wall time since 1970. BigQuery's table calls the same wall time UTC. A time of another maker that
names a zone or an offset is an instant, and becomes the wall time of a zone that is asked for.
"""

import zoneinfo
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from components.prepare_examples.tables.bad_rows import BadRows
from components.prepare_examples.tables.columns import LIMITS

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "trip_start_timestamp"
FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")
# The offset at the end of a time: Z, +02, -0500 or -05:00. "UTC" is none: so BigQuery marks the
# city's wall time.
OFFSET = r"(:\d\d(?:\.\d+)?) ?(Z|[+-]\d\d(?::?\d\d)?)$"
DAY_SECONDS, HOUR_SECONDS, QUARTER_SECONDS = 86_400, 3_600, 900
THURSDAY = 4  # 1 January 1970, counted from Sunday = 0


def wall_times(column: "pa.Array", *, time_zone: str) -> "pa.Array":
    """Return timestamps or dates as naive seconds; those with a zone as the wall time of one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("s"))
    naive = column.view(pa.timestamp(column.type.unit))
    seconds = pc.floor_temporal(naive, unit="second").cast(pa.timestamp("s"))
    if not column.type.tz:
        return seconds
    shifts = _offsets(seconds.cast(pa.int64()).fill_null(0), zoneinfo.ZoneInfo(time_zone))
    return pc.add(seconds.cast(pa.int64()), shifts).cast(pa.timestamp("s"))


def _offsets(seconds: "pa.Array", zone: zoneinfo.ZoneInfo) -> "pa.Array":
    """Return the seconds that a zone is ahead of UTC at each moment.

    By Python, once for each quarter of an hour: Arrow looks for the system's database of zones,
    which small container images do not have.
    """
    import numpy as np
    import pyarrow as pa

    limits = LIMITS[NAME]
    possible = seconds.to_numpy(zero_copy_only=False).clip(int(limits.low), int(limits.high))
    quarters, places = np.unique(possible // QUARTER_SECONDS, return_inverse=True)
    moments = (datetime.fromtimestamp(int(q) * QUARTER_SECONDS, zone) for q in quarters)
    shifts = [int((moment.utcoffset() or timedelta()).total_seconds()) for moment in moments]
    return pa.array(np.array(shifts, np.int64)[places])


def seconds_of(
    column: "pa.Array", bad: BadRows, *, zones: Counter[str], time_zone: str
) -> "pa.Array":
    """Return Unix seconds, int64, of texts or naive timestamps; others are null and marked.

    Args:
        column: texts, `wall_times` or numbers; the last are returned as they are.
        bad: where to mark.
        zones: counts the texts that name an offset, by it.
        time_zone: whose wall time those become.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    if not pa.types.is_string(column.type):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        seconds = _parse_texts(column, zones, time_zone)
    wrong = pc.and_(seconds.is_null(), column.is_valid()).to_numpy(zero_copy_only=False)
    bad.add(np.flatnonzero(wrong), NAME, lambda row: f"{column[row].as_py()!r} is no time")
    return seconds


def hours(seconds: "pa.Array") -> "pa.Array":
    """The hour of the day, 0 to 23."""
    import pyarrow.compute as pc

    return pc.divide(_remainder(seconds, DAY_SECONDS), HOUR_SECONDS)


def weekdays(seconds: "pa.Array") -> "pa.Array":
    """The day of the week, 1 = Sunday to 7 = Saturday."""
    import pyarrow.compute as pc

    days = pc.divide(seconds, DAY_SECONDS)
    return pc.add(_remainder(pc.add(days, THURSDAY), 7), 1)


def months(seconds: "pa.Array") -> "pa.Array":
    """The month, 1 to 12."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.month(seconds.cast(pa.timestamp("s")))


def _remainder(values: "pa.Array", divisor: int) -> "pa.Array":
    import pyarrow.compute as pc

    return pc.subtract(values, pc.multiply(pc.divide(values, divisor), divisor))


def _parse_texts(column: "pa.Array", zones: Counter[str], time_zone: str) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

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


DERIVE: "dict[str, Callable[[pa.Array], pa.Array]]" = {
    "trip_start_hour": hours,
    "trip_start_day": weekdays,
    "trip_start_month": months,
}
