"""Cron expressions of Vertex AI: an optional time zone (default: UTC) and five fields."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from vertex_local.errors import invalid_argument

NUM_FIELDS = 5
VALUE = r"(?:[0-9]+|[A-Za-z]{3})"
TERM = rf"(?:\*|{VALUE}(?:-{VALUE})?)(?:/[0-9]+)?"
FIELD = re.compile(rf"{TERM}(?:,{TERM})*")  # without L, W and #, which are extensions
ZONE_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S*)\s+")
EXAMPLE = '"TZ=Europe/Berlin 0 3 * * *"'


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
            ApiError: It is not valid, or has no time in the next fifty years.
        """
        prefix = ZONE_PREFIX.match(text)
        expression = text[prefix.end() if prefix else 0 :].strip()
        fields = expression.split()
        if len(fields) != NUM_FIELDS:
            raise invalid_argument(
                f'cron "{text}" has {len(fields)} fields; write minute, hour, day of month, month '
                f"and day of week, as {EXAMPLE}."
            )
        for field in fields:
            if not FIELD.fullmatch(field):
                raise invalid_argument(
                    f'cron "{text}": field {field} is not valid; write it as in {EXAMPLE}.'
                )
        cron = cls(expression, _zone(prefix[1]) if prefix else UTC)
        try:
            has_next = cron.next_after(datetime.now(UTC)) is not None
        except CronSimError as error:
            raise invalid_argument(f'cron "{text}": {error}.') from None
        if not has_next:
            raise invalid_argument(f'cron "{text}" has no time in the next fifty years.')
        return cron

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment, in UTC; None if there is none in fifty years."""
        try:
            for time in CronSim(self.expression, moment.astimezone(self.zone)):
                # In the repeated hour the library may return a time in the first of the two.
                if time.astimezone(UTC) > moment:
                    return time.astimezone(UTC)
        except OverflowError:  # after the year 9999
            pass
        return None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise invalid_argument(
            f'time zone "{name}" is unknown; write an IANA name, such as Europe/Berlin.'
        ) from None
