"""Cron expressions of Vertex AI: an optional time zone (default: UTC) and five fields."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MOST = (59, 23, 31, 12, 7)  # minute, hour, day of month, month, day of week
VALUE = r"(?:[0-9]+|[A-Za-z]{3})"
TERM = rf"(?:\*|{VALUE}(?:-{VALUE})?)(?:/[0-9]+)?"
FIELD = re.compile(rf"{TERM}(?:,{TERM})*")  # without L, W and #, which are extensions
ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S*)\s+")


@dataclass(frozen=True)
class Cron:
    """Cron expression with its time zone.

    When clocks change, it behaves like Debian's cron: a run in the skipped hour starts right after
    it, a run in the repeated hour starts once, and an hourly run starts every hour.
    """

    expression: str
    zone: tzinfo

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Parse `TZ=Europe/Berlin 0 3 * * *`.

        Raises:
            ValueError: It is not valid, or has no time in the next fifty years.
        """
        prefix = ZONE_PREFIX.match(text)
        fields = text[prefix.end() if prefix else 0 :].split()
        cron = cls(" ".join(fields), zone_of(prefix[1]) if prefix else UTC)
        if len(fields) != len(MOST):
            raise ValueError(
                f"{cron.expression!r} has {len(fields)} fields; write minute, hour, day of month, "
                'month and day of week, as "0 3 * * *"'
            )
        for field, most in zip(fields, MOST, strict=True):
            if not FIELD.fullmatch(field):
                raise ValueError(f"{field!r} in {cron.expression!r} is not a cron field")
            if any(float(step) > most for step in re.findall("/([0-9]+)", field)):
                raise ValueError(f"{field!r} in {cron.expression!r} has a step above {most}")
        try:
            has_next = cron.next_after(datetime.now(UTC)) is not None
        except CronSimError as error:
            raise ValueError(f"{cron.expression!r}: {error}") from None
        if not has_next:
            raise ValueError(f"{cron.expression!r} has no time in the next fifty years")
        return cron

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times after a moment, in UTC, until there is none in fifty years."""
        with suppress(OverflowError):  # after the year 9999
            for time in CronSim(self.expression, moment.astimezone(self.zone)):
                # In the repeated hour the library may return a time in the first of the two.
                if (following := time.astimezone(UTC)) > moment:
                    moment = following
                    yield following

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment, in UTC; None if there is none in fifty years."""
        return next(self.after(moment), None)


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises:
        ValueError: There is none of this name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        text = f"{name!r} is no time zone; write an IANA name, such as Europe/Berlin"
        raise ValueError(text) from None
