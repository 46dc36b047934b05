"""Moments in time: parts of them in the graph, and reading them from requests.

A moment is a number of seconds of wall time since 1970, as examples store it.
"""

import math
import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Any

from trainer.runtime.lazy import tf
from trainer.workloads.declarations.features import TIME_PARTS, UNIX_UNITS, Timestamp

# Stored for a missing moment; any other number is one.
NO_TIME = -(2**63)

# The least and the greatest value of each part that is a category.
PART_LIMITS = {
    "month": (1, 12),
    "day": (1, 31),
    "weekday": (1, 7),
    "hour": (0, 23),
    "minute": (0, 59),
}
assert {*PART_LIMITS, "year"} == set(TIME_PARTS)

_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%m/%d/%Y %I:%M:%S %p")
_LABELLED = re.compile(r" ?UTC$")  # BigQuery labels wall times with it
_SPACE = re.compile(r" (?=(?:Z|[+-]\d\d(?::?\d\d)?)$)")
_SLASHES = re.compile(r"^(\d{4})/(\d\d)/(\d\d)")
_MOST_SECONDS = 2**53
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_MONTHS = {
    start: english
    for english, starts in {
        **{"Jan": "jan jän ene", "Feb": "feb fév", "Mar": "mar mär mrz", "Apr": "apr avr abr"},
        **{"May": "may mai", "Jun": "jun juin", "Jul": "jul juil", "Aug": "aug aoû aou ago"},
        **{"Sep": "sep", "Oct": "oct okt", "Nov": "nov", "Dec": "dec dez déc dic"},
    }.items()
    for start in starts.split()
}
# A point after a name belongs to it before a blank, as in `27 janv. 2016`.
MONTH = re.compile(rf"(?i)(?<![^\W\d_])({'|'.join(_MONTHS)})[^\W\d_]*(?:\.(?= ))?(?![^\W\d_])")
_THURSDAY = 4  # 1 January 1970, counted from Sunday = 0


def time_part(seconds: Any, part: str) -> Any:
    """Return a part of each moment, int64: weekday is 1 on Sunday, the others as on a calendar.

    Dates are of the proleptic Gregorian calendar; computed from days as in "chrono-Compatible
    Low-Level Date Algorithms" (Hinnant, 2021).
    """
    days = tf.math.floordiv(seconds, _DAY)
    if part == "weekday":
        return tf.math.floormod(days + _THURSDAY, 7) + 1
    if part == "hour":
        return tf.math.floordiv(tf.math.floormod(seconds, _DAY), _HOUR)
    if part == "minute":
        return tf.math.floordiv(tf.math.floormod(seconds, _HOUR), _MINUTE)
    shifted = days + 719_468  # since 1 March of the year 0
    era = tf.math.floordiv(shifted, 146_097)
    day_of_era = tf.math.floormod(shifted, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153  # from March = 0
    if part == "day":
        return day_of_year - (153 * month + 2) // 5 + 1
    calendar = tf.where(month < 10, month + 3, month - 9)  # noqa: PLR2004
    if part == "month":
        return calendar
    return year + era * 400 + tf.cast(calendar <= 2, tf.int64)  # noqa: PLR2004


def cycle(numbers: Any, part: str) -> Any:
    """Return sine and cosine of a part's place in its cycle, float32 [batch, columns, 2]."""
    low, high = PART_LIMITS[part]
    angles = tf.cast(numbers - low, tf.float32) * (2 * math.pi / (high - low + 1))
    return tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)


def parse_time(value: Any, feature: Timestamp) -> int:
    """Return the seconds of a request's value: a number of seconds, or a text.

    With a unit of Unix times as format, it is a number of this unit. A text has the feature's
    format, and a number may have it, such as 20240131; without one a text is ISO 8601, or a number
    of seconds. A moment with a zone or an offset is converted to wall time in the feature's time
    zone.

    Raises:
        ValueError: it is neither; the message names the feature.
    """
    divisor = UNIX_UNITS.get(feature.format, 1)
    if divisor > 1 and isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,17}\s*", value):
        value = int(value)
    if (
        feature.format
        and divisor == 1
        and type(value) is int
        and seconds_of(str(value), feature) is not None
    ):
        value = str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) < _MOST_SECONDS:
            return int(value // divisor)
        raise ValueError(f"{feature.name} is {value!r:.40}; it must be a time")
    if not isinstance(value, str):
        raise ValueError(f"{feature.name} is {value!r}; it must be a text or a number of seconds")
    text = value.strip()
    if not feature.format and re.fullmatch(r"-?\d{1,12}(\.0*)?", text, re.ASCII):
        return int(text.partition(".")[0])
    seconds = seconds_of(text, feature)
    if seconds is None:
        form = f"a time in the format {feature.format!r}" if feature.format else "ISO 8601"
        raise ValueError(f"{feature.name} is {value!r}, which is not a time; it must be {form}")
    return seconds


def seconds_of(text: str, feature: Timestamp) -> int | None:
    """Return the wall time of a text; None if it is no time, or in its zone not from 1 to 9999."""
    if feature.format:
        moment = _in_format(text.strip(), feature)
    else:
        plain = _SLASHES.sub(r"\1-\2-\3", _SPACE.sub("", _LABELLED.sub("", text)))
        try:
            moment = datetime.fromisoformat(plain)
        except ValueError:
            moment = next((m for form in _FORMATS if (m := _try_format(plain, form))), None)
    if moment is not None and moment.tzinfo is not None:
        try:
            moment = moment.astimezone(zoneinfo.ZoneInfo(feature.time_zone))
        except OverflowError:
            return None
    if moment is None:
        return None
    return (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def _in_format(text: str, feature: Timestamp) -> datetime | None:
    form = feature.format.replace("%B", "%b")
    if "%b" in form:
        text = MONTH.sub(lambda match: _MONTHS[match[1].lower()], text)
        form = form.replace("%b. ", "%b ")
    moment = _try_format(text, form)
    if moment is None or "%y" not in form:
        return moment
    last = feature.last_year
    try:
        return moment.replace(year=last - (last - moment.year) % 100)
    except ValueError:  # 29 February of a year that has none
        return None


def _try_format(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except (ValueError, re.error):  # a format has a directive twice
        return None
