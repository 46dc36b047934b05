"""The features Timestamp and TimePart: moments in time, and parts of them.

A moment is a number of seconds of wall time since 1970, as examples store it.
"""

import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from trainer.runtime.lazy import tf
from trainer.workloads.declarations.features.base import Feature, check_limits
from trainer.workloads.declarations.features.whole_numbers import (
    format_whole,
    missing_whole,
    num_whole,
    parse_whole,
    plain_whole,
    whole_column,
)
from trainer.workloads.declarations.storage import INT
from trainer.workloads.declarations.written import NumberLimits
from trainer.workloads.encoding.columns import Column, TableFacts
from trainer.workloads.encoding.lookups import num_categories, number_integers
from trainer.workloads.encoding.moments import (
    NO_TIME,
    PART_LIMITS,
    TIME_PARTS,
    cycle,
    time_part,
)

# The number of each unit in a second.
UNIX_UNITS = {"milliseconds": 1_000, "microseconds": 1_000_000}
_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%m/%d/%Y %I:%M:%S %p")
_DIGITS = re.compile(r"(%[YymdHMSj]){2,}")  # formats whose digits only their number tells apart
_LABELLED = re.compile(r" ?UTC$")  # BigQuery labels wall times with it
_SPACE = re.compile(r" (?=(?:Z|[+-]\d\d(?::?\d\d)?)$)")
_SLASHES = re.compile(r"^(\d{4})/(\d\d)/(\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SECONDS = 2**53
_MONTHS = {
    start: english
    for english, starts in {
        "Jan": "jan jän ene",
        "Feb": "feb fév",
        "Mar": "mar mär mrz",
        "Apr": "apr avr abr",
        "May": "may mai",
        "Jun": "jun juin",
        "Jul": "jul juil",
        "Aug": "aug aoû aou ago",
        "Sep": "sep",
        "Oct": "oct okt",
        "Nov": "nov",
        "Dec": "dec dez déc dic",
    }.items()
    for start in starts.split()
}
# A point after a name belongs to it before a blank, as in `27 janv. 2016`.
MONTH = re.compile(rf"(?i)(?<![^\W\d_])({'|'.join(_MONTHS)})[^\W\d_]*(?:\.(?= ))?(?![^\W\d_])")


@dataclass(frozen=True)
class Timestamp(Feature, NumberLimits):
    """A moment, stored as int64 seconds of wall time since 1970.

    Attributes:
        format: of a text, as in `datetime.strptime`; default: Unix seconds and ISO 8601. Or the
            unit of Unix times, "milliseconds" or "microseconds". Months may have English, German,
            French or Spanish names.
        last_year: the last of the hundred years that `%y` means.
        time_zone: whose wall time is stored for a moment that names a zone or an offset.
        parts: the model gets these parts as categories (the year as a number), and the cyclic ones
            also as sine and cosine: "year", "month", "day", "weekday", "hour", "minute".
        low, high: the possible seconds; rows with others are quarantined.
        unit: for messages.
    """

    _: KW_ONLY
    format: str = ""
    last_year: int = 2068
    time_zone: str = "UTC"
    parts: tuple[str, ...] = ("month", "weekday", "hour")
    low: int | None = None
    high: int | None = None
    unit: str = ""

    storage = INT
    missing_value = NO_TIME
    is_spelled = False

    @property
    def units_in_second(self) -> int:
        """The number of units of the format in a second."""
        return UNIX_UNITS.get(self.format, 1)

    @property
    def length(self) -> int:
        """The length of texts in a format of digits alone, as %H%M; 0 in others."""
        return len(_EPOCH.strftime(self.format)) if _DIGITS.fullmatch(self.format) else 0

    @property
    def cyclic_parts(self) -> tuple[str, ...]:
        """The parts that are categories."""
        return tuple(part for part in self.parts if part in PART_LIMITS)

    def check(self, features: Sequence[Feature]) -> None:
        super().check(features)
        check_limits(self)
        if unknown := set(self.parts) - set(TIME_PARTS):
            raise ValueError(
                f"{self.name}: {unknown.pop()!r} is not a part; allowed are {', '.join(TIME_PARTS)}"
            )

    def most_categories(self) -> dict[str, int]:
        limits = {part: PART_LIMITS[part] for part in self.cyclic_parts}
        return {f"{self.name}_{part}": high - low + 1 for part, (low, high) in limits.items()}

    def columns(self, facts: TableFacts) -> list[Column]:
        columns = [
            self.column(
                "category",
                num_categories(size),
                suffix=name.removeprefix(self.name),
                key=name,
                compute=_number_times,
                shared={"part": part},
            )
            for part, (name, size) in zip(
                self.cyclic_parts, self.most_categories().items(), strict=True
            )
        ]
        if columns:
            cycles = {"compute": _cycles, "shared": {"parts": self.cyclic_parts}}
            columns.append(self.column("number", 2 * len(columns), suffix="_cycles", **cycles))
        if "year" in self.parts:
            mean, deviation = facts.moments.get(self.name, (0.0, 1.0))
            year = {"compute": _years, "vectors": {"mean": mean, "deviation": deviation}}
            columns.append(self.column("number", 1, suffix="_year", **year))
        return columns

    def learn(self, source: Any, *, has_edges: bool) -> dict[str, Any]:
        return {"moments": source.moments(self.name)} if "year" in self.parts else {}

    def plain_column(self, values: list[Any]) -> np.ndarray | None:
        return None

    def parse_one(self, value: Any) -> np.ndarray:
        is_missing = value is None or self.is_marker(value)
        return np.asarray(NO_TIME if is_missing else self._seconds(value), np.int64)

    def as_item(self, value: Any) -> Any:
        return int(value) * self.units_in_second if value != NO_TIME else None

    def _seconds(self, value: Any) -> int:
        """Return the seconds of a request's value: a number of seconds, or a text.

        With a unit of Unix times as format, it is a number of this unit. A text has the feature's
        format, and a number may have it, such as 20240131; without one a text is ISO 8601, or a
        number of seconds. A moment with a zone or an offset is converted to wall time in the
        feature's time zone.

        Raises:
            ValueError: it is neither; the message names the feature.
        """
        divisor = self.units_in_second
        if divisor > 1 and isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,17}\s*", value):
            value = int(value)
        has_format = bool(self.format) and divisor == 1
        if has_format and type(value) is int:
            text = str(value).zfill(self.length)
            value = value if self.seconds_of(text) is None else text
        if isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) < _MOST_SECONDS:
                return int(value // divisor)
            raise ValueError(f"{self.name} is {value!r:.40}; it must be a time")
        if not isinstance(value, str):
            raise ValueError(f"{self.name} is {value!r}; it must be a text or a number of seconds")
        text = value.strip()
        if not self.format and re.fullmatch(r"-?\d{1,12}(\.0*)?", text, re.ASCII):
            return int(text.partition(".")[0])
        seconds = self.seconds_of(text)
        if seconds is None:
            form = f"a time in the format {self.format!r}" if self.format else "ISO 8601"
            raise ValueError(f"{self.name} is {value!r}, which is not a time; it must be {form}")
        return seconds

    def seconds_of(self, text: str) -> int | None:
        """Return the wall time of a text; None if it is none, or in its zone not from 1 to 9999."""
        if self.format:
            moment = self._in_format(text.strip())
        else:
            plain = _SLASHES.sub(r"\1-\2-\3", _SPACE.sub("", _LABELLED.sub("", text)))
            try:
                moment = datetime.fromisoformat(plain)
            except ValueError:
                moment = next((m for form in _FORMATS if (m := _try_format(plain, form))), None)
        if moment is not None and moment.tzinfo is not None:
            try:
                moment = moment.astimezone(zoneinfo.ZoneInfo(self.time_zone))
            except OverflowError:
                return None
        if moment is None:
            return None
        return (moment.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)

    def _in_format(self, text: str) -> datetime | None:
        form = self.format.replace("%B", "%b")
        if "%b" in form:
            text = MONTH.sub(lambda match: _MONTHS[match[1].lower()], text)
            form = form.replace("%b. ", "%b ")
        moment = _try_format(text, form) if self.length in (0, len(text)) else None
        if moment is None or "%y" not in form:
            return moment
        last = self.last_year
        try:
            return moment.replace(year=last - (last - moment.year) % 100)
        except ValueError:  # 29 February of a year that has none
            return None


@dataclass(frozen=True)
class TimePart(Feature, NumberLimits):
    """A part of a Timestamp as a feature of its own, stored as int64 and computed in preparing.

    A column of this name in the files is not read.

    Attributes:
        of: the name of the Timestamp.
        part: one of the `parts` of a Timestamp.
        low, high: the possible values.
    """

    _: KW_ONLY
    of: str
    part: str
    low: int = 0
    high: int = 59

    storage = INT

    @property
    def missing_value(self) -> Any:
        return missing_whole(self)

    @property
    def origin(self) -> str:
        return self.of

    def check(self, features: Sequence[Feature]) -> None:
        super().check(features)
        check_limits(self)
        if self.part not in PART_LIMITS:
            raise ValueError(
                f"{self.name}: {self.part!r} is not a part; allowed are {', '.join(PART_LIMITS)}"
            )
        times = [feature.name for feature in features if isinstance(feature, Timestamp)]
        if self.of not in times:
            raise ValueError(
                f"{self.name}: {self.of!r} is not a Timestamp of the table; add"
                f" Timestamp({self.of!r})"
            )

    def most_categories(self) -> dict[str, int]:
        return {self.name: num_whole(self)}

    def columns(self, facts: TableFacts) -> list[Column]:
        return [whole_column(self)]

    def parse_one(self, value: Any) -> np.ndarray:
        return parse_whole(self, value)

    def plain_column(self, values: list[Any]) -> np.ndarray | None:
        return plain_whole(self, values)

    def as_item(self, value: Any) -> Any:
        return format_whole(self, value)


def _try_format(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except (ValueError, re.error):  # a format has a directive twice
        return None


def _number_times(seconds: Any, *, part: str) -> Any:
    low, high = PART_LIMITS[part]
    parts = time_part(seconds, part)
    numbers = number_integers(parts, low=[low], high=[high], missing=[NO_TIME])
    return tf.where(seconds == NO_TIME, 0, numbers)


def _cycles(seconds: Any, *, parts: Sequence[str]) -> Any:
    cycles = tf.concat([cycle(time_part(seconds, part), part) for part in parts], axis=2)
    known = tf.where((seconds == NO_TIME)[:, :, tf.newaxis], 0.0, cycles)
    return tf.reshape(known, [-1, known.shape[1] * known.shape[2]])


def _years(seconds: Any, *, mean: Sequence[float], deviation: Sequence[float]) -> Any:
    """Return the time since the train split's mean, in its standard deviations."""
    since = tf.cast(seconds, tf.float64) - tf.constant(mean, tf.float64)
    scaled = tf.cast(since / tf.constant(deviation, tf.float64), tf.float32)
    return tf.where(seconds == NO_TIME, 0.0, scaled)
