"""Cron lines as Vertex AI takes them: five fields, and a time zone before them if not UTC."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

NUM_FIELDS = 5
VALUE = r"(?:[0-9]+|[A-Za-z]{3})"
TERM = rf"(?:\*|{VALUE}(?:-{VALUE})?)(?:/[0-9]+)?"
FIELD = re.compile(rf"{TERM}(?:,{TERM})*")  # no L, W and #, which not every cron knows
ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S*)\s+")
EXAMPLE = '"TZ=Europe/Berlin 0 3 * * *"'


class CronError(ValueError):
    """A cron line that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True)
class Cron:
    """A cron line in its time zone.

    Where clocks change it does as Debian's cron: what falls into the hour that is left out comes
    right after it, what falls into the hour that comes twice comes once, and every hour is every
    hour.
    """

    expression: str
    zone: tzinfo

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Reads `TZ=Europe/Berlin 0 3 * * *`.

        Raises:
            CronError: says what is wrong.
        """
        prefix = ZONE_PREFIX.match(text)
        expression = text[prefix.end() if prefix else 0 :].strip()
        fields = expression.split()
        if len(fields) != NUM_FIELDS:
            raise CronError(
                f'cron "{text}" has {len(fields)} fields; write minute, hour, day of month, month '
                f"and day of week, as {EXAMPLE}"
            )
        for field in fields:
            if not FIELD.fullmatch(field):
                raise CronError(f'cron "{text}": {field} cannot be read; write it as {EXAMPLE}')
        cron = cls(expression, _zone(prefix[1]) if prefix else UTC)
        try:
            is_ever = cron.next_after(datetime.now(UTC)) is not None
        except CronSimError as error:
            raise CronError(f'cron "{text}": {error}') from None
        if not is_ever:
            raise CronError(f'cron "{text}" never comes')
        return cron

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after a moment, in UTC; None if there is none in fifty years."""
        for time in CronSim(self.expression, moment.astimezone(self.zone)):
            # In the hour that comes twice the library may go back to the first of the two.
            if time.astimezone(UTC) > moment:
                return time.astimezone(UTC)
        return None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CronError(
            f'time zone "{name}" is unknown; write a name of the IANA database, as Europe/Berlin'
        ) from None
