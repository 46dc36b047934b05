"""The start of a trip in every spelling that the data has: Unix seconds, the portal's, BigQuery's.

The city publishes Chicago's local time, rounded to quarters of an hour; it is taken as if it were
UTC, as BigQuery's table does.
"""

from typing import TYPE_CHECKING

from components.prepare_examples.bad_rows import BadRows

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "trip_start_timestamp"
FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%Y-%m-%d %H:%M:%S")
DAY_SECONDS, HOUR_SECONDS = 86_400, 3_600
THURSDAY = 4  # 1 January 1970, counted from Sunday = 0


def seconds_of(column: "pa.Array", bad: BadRows) -> "pa.Array":
    """Unix seconds, int64, of texts, numbers or timestamps; others are null and marked."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        return pc.floor_temporal(column, unit="second").cast(pa.timestamp("s")).cast(pa.int64())
    if not pa.types.is_string(column.type):
        return column.cast(pa.int64())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        seconds = _parse_texts(column)
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


def _parse_texts(column: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    is_number = pc.match_substring_regex(column, r"^\d{1,12}(\.0*)?$")
    digits = pc.if_else(is_number, pc.replace_substring_regex(column, r"\..*", ""), None)
    found = digits.cast(pa.int64())
    plain = pc.replace_substring_regex(column, r"(\.\d+)?( ?UTC|Z)?$", "")
    plain = pc.replace_substring_regex(plain, r"^(\d{4}-\d\d-\d\d)T", r"\1 ")
    for spelling in FORMATS:
        parsed = pc.strptime(plain, format=spelling, unit="s", error_is_null=True)
        found = pc.coalesce(found, parsed.cast(pa.int64()))
    return found
