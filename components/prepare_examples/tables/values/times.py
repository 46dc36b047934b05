"""Parsing of times: Unix seconds, ISO 8601 and similar texts, or a declared format.

Examples hold seconds of wall time since 1970. A time with a zone or an offset is an instant; it is
converted to wall time in the column's time zone. A text that ends in "UTC" is not converted,
because BigQuery's tables label any wall time with it.
"""

import zoneinfo
from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.values.written import mapped
from trainer.workloads.declarations.features import UNIX_UNITS, Timestamp
from trainer.workloads.encoding.moments import time_part

FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")
# Directives that Arrow parses as Python does, apart from the days of short months.
ARROW_DIRECTIVES = set("YmdHMSIp%")
# The offset at the end of a time: Z, +02, -0500 or -05:00.
OFFSET = r":\d\d(?:\.\d+)? ?(?P<offset>Z|[+-]\d\d(?::?\d\d)?)$"
DAY_SECONDS, HOUR_SECONDS, QUARTER_SECONDS = 86_400, 3_600, 900
MAX_SHORT_DAYS = 3  # the 31st of February is 3 March to Arrow
FIRST_YEAR = 1000  # Arrow parses years of fewer digits, too
YEARS_2_TO_9998 = (-62_104_060_800, 253_370_764_800)  # seconds; all zones know them


def wall_times(column: pa.Array, known: Timestamp) -> pa.Array:
    """Return timestamps or dates as naive seconds; with a zone, as wall time of the column."""
    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("s"))
    naive = column.view(pa.timestamp(column.type.unit))
    seconds = pc.floor_temporal(naive, unit="second").cast(pa.timestamp("s"))
    if not column.type.tz:
        return seconds
    shifts = _offsets(seconds.cast(pa.int64()).fill_null(0), known)
    return pc.add(seconds.cast(pa.int64()), shifts).cast(pa.timestamp("s"))


def _offsets(seconds: pa.Array, known: Timestamp) -> pa.Array:
    """Return how many seconds the column's zone is ahead of UTC at each moment.

    Computed by Python, once for each quarter of an hour: Arrow needs the system's time zone
    database, which small container images do not have.
    """
    low, high = YEARS_2_TO_9998
    low = low if known.low is None else max(low, int(known.low))
    high = high if known.high is None else min(high, int(known.high))
    zone = zoneinfo.ZoneInfo(known.time_zone)
    possible = np.asarray(seconds).clip(low, high)
    quarters, places = np.unique(possible // QUARTER_SECONDS, return_inverse=True)
    moments = (datetime.fromtimestamp(int(q) * QUARTER_SECONDS, zone) for q in quarters)
    shifts = [int((moment.utcoffset() or timedelta()).total_seconds()) for moment in moments]
    return pa.array(np.array(shifts, np.int64)[places])


def parse_times(
    column: pa.Array, bad: BadRows, known: Timestamp, *, zones: Counter[str]
) -> pa.Array:
    """Return Unix seconds, int64, of texts or naive timestamps; texts that are not times are null.

    Args:
        column: texts, `wall_times` or numbers; these are returned as numbers of seconds.
        bad: gets the rows of texts that are not times.
        known: the column in the schema.
        zones: counts the texts with an offset, by `COLUMN OFFSET`.
    """
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    divisor = UNIX_UNITS.get(known.format, 1)
    if not pa.types.is_string(column.type):
        return _unix_seconds(column, divisor) if divisor > 1 else column
    if divisor > 1:
        seconds = _unix_seconds(column, divisor).cast(pa.int64())
        expected = f"is not a number of {known.format}"
    elif known.format:
        seconds = _parse_format(column, known)
        expected = f"does not match the format {known.format!r}"
    else:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            seconds = _parse_texts(column, known, zones)
        expected = "is not a time; expected Unix seconds, or a text such as 2024-01-31 23:59:59"
    is_wrong = pc.and_(seconds.is_null(), column.is_valid())
    bad.add(is_wrong, known.name, lambda row: f"{column[row].as_py()!r} {expected}")
    return seconds


def _unix_seconds(column: pa.Array, divisor: int) -> pa.Array:
    """Return numbers, or texts of them, of a smaller unit as seconds; null for other texts."""
    if pa.types.is_string(column.type):
        is_number = pc.match_substring_regex(column, r"^-?[0-9]{1,17}(\.0*)?$")
        column = pc.if_else(is_number, column, pa.scalar(None, pa.string()))
    units = column.cast(pa.float64(), safe=False)
    return pc.floor(pc.divide(units, float(divisor)))


def _parse_texts(column: pa.Array, known: Timestamp, zones: Counter[str]) -> pa.Array:
    is_number = pc.match_substring_regex(column, r"^\d{1,12}(\.0*)?$")
    digits = pc.if_else(is_number, pc.replace_substring_regex(column, r"\..*", ""), None)
    seconds = digits.cast(pa.int64())
    plain = pc.replace_substring_regex(column, r"(\.\d+)?( ?UTC)?$", "")
    plain = pc.replace_substring_regex(plain, r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3")
    plain = pc.replace_substring_regex(plain, r"^(\d{4}-\d\d-\d\d)T", r"\1 ")
    for spelling in FORMATS:
        seconds = pc.coalesce(seconds, _strptime(plain, spelling))
    offsets = pc.struct_field(pc.extract_regex(column, OFFSET), "offset").drop_null()
    counted = offsets.value_counts().to_pylist()
    zones.update({f"{known.name} {entry['values']}": entry["counts"] for entry in counted})
    is_other = seconds.is_null()
    return pc.replace_with_mask(
        seconds, is_other, mapped(column.filter(is_other), known.seconds_of, pa.int64())
    )


def _parse_format(column: pa.Array, known: Timestamp) -> pa.Array:
    """Return the seconds of texts in the column's format; null for other texts."""
    directives = {text[:1] for text in known.format.split("%")[1:]}
    if directives <= ARROW_DIRECTIVES and not known.length:
        return _strptime(column, known.format)
    return mapped(column, known.seconds_of, pa.int64())


def _strptime(column: pa.Array, spelling: str) -> pa.Array:
    """Return the seconds of naive texts, parsed by Arrow.

    Arrow makes 1 March of 30 February, and the year 20 of 20-01-01: Python parses such texts again.
    """
    parsed = pc.strptime(column, format=spelling, unit="s", error_is_null=True)
    doubtful = pc.or_(
        pc.less_equal(pc.day(parsed), MAX_SHORT_DAYS), pc.less(pc.year(parsed), FIRST_YEAR)
    ).fill_null(False)
    time = Timestamp("", format=spelling)
    again = mapped(column.filter(doubtful), time.seconds_of, pa.int64())
    return pc.replace_with_mask(parsed.cast(pa.int64()), doubtful, again)


def part_of(seconds: pa.Array, part: str) -> pa.Array:
    """Return a part of times, which are seconds of wall time, as int64."""
    # Not Arrow's, which are wrong of times far beyond the year 9999.
    parts = time_part(np.asarray(seconds.fill_null(0)), part)
    return pa.array(parts, mask=np.asarray(seconds.is_null()))
