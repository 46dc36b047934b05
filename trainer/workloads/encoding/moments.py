"""Parts of moments in time, computed in the graph.

A moment is a number of seconds of wall time since 1970, as examples store it.
"""

import math
from typing import Any

from trainer.runtime.lazy import tf

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
# What the calendar says of a moment; weekday is 1 on Sunday.
TIME_PARTS = ("year", *PART_LIMITS)

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_THURSDAY = 4  # 1 January 1970, counted from Sunday = 0


def time_part(seconds: Any, part: str) -> Any:
    """Return a part of each moment, int64: weekday is 1 on Sunday, the others as on a calendar.

    `seconds` are a tensor or an array. Dates are of the proleptic Gregorian calendar; computed from
    days as in "chrono-Compatible Low-Level Date Algorithms" (Hinnant, 2021).
    """
    days = seconds // _DAY
    if part == "weekday":
        return (days + _THURSDAY) % 7 + 1
    if part == "hour":
        return seconds % _DAY // _HOUR
    if part == "minute":
        return seconds % _HOUR // _MINUTE
    shifted = days + 719_468  # since 1 March of the year 0
    era, day_of_era = shifted // 146_097, shifted % 146_097
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153  # from March = 0
    if part == "day":
        return day_of_year - (153 * month + 2) // 5 + 1
    if part == "month":
        return (month + 2) % 12 + 1
    return year + era * 400 + (month + 2) // 12


def cycle(numbers: Any, part: str) -> Any:
    """Return sine and cosine of a part's place in its cycle, float32 [batch, columns, 2]."""
    low, high = PART_LIMITS[part]
    angles = tf.cast(numbers - low, tf.float32) * (2 * math.pi / (high - low + 1))
    return tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)
