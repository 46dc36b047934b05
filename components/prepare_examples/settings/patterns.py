"""Dates in the names of files: `{run_date:%Y-%m-%d}`, and before or after it `{run_date-1d:…}`."""

import datetime
import re
from collections.abc import Sequence

from trainer.errors import ConfigError
from trainer.paths import is_bucket_uri

PLACEHOLDER = re.compile(r"\{run_date(?P<offset>[+-]\d{1,4}[hdw])?:(?P<form>[^{}]*)\}")
BRACES = re.compile(r"\{[^{}]*\}")
LIKE_A_DATE = re.compile(r"run|date|%", re.IGNORECASE)  # other braces belong to the name
CODE = re.compile(r"%(.?)")
CODES = "YymdHjGVbB"  # of datetime.strftime
EXAMPLE = "{run_date:%Y-%m-%d}, or {run_date-1d:%Y-%m-%d} for the day before"
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
FIRST_YEAR, LAST_YEAR = 1900, 2999  # any duration can be added to them, or taken from them


def has_dates(pattern: str) -> bool:
    """Return whether a pattern contains a date."""
    return PLACEHOLDER.search(pattern) is not None


def check_pattern(pattern: str) -> None:
    """Check the dates of a pattern.

    Raises:
        ConfigError: braces look like a date and are none; names them.
    """
    for braces in BRACES.findall(pattern):
        match = PLACEHOLDER.fullmatch(braces)
        if match is None:
            if LIKE_A_DATE.search(braces):
                raise ConfigError(f"files is {pattern!r}: {braces} is not a date; write {EXAMPLE}")
            continue
        codes = CODE.findall(match["form"])
        wrong = [f"%{code}" for code in codes if not code or code not in CODES]
        if wrong or not codes:
            problem = f"has {wrong[0]}" if wrong else "has no date"
            allowed = ", ".join(f"%{code}" for code in CODES)
            raise ConfigError(
                f"files is {pattern!r}: {braces} {problem}; allowed are {allowed}, as in {EXAMPLE}"
            )


def check_absolute(name: str, *addresses: str) -> None:
    """Check that addresses are absolute or "": a pipeline's step runs in another folder.

    Raises:
        ConfigError: one is relative.
    """
    for address in addresses:
        if address and not (address.startswith("/") or is_bucket_uri(address)):
            raise ConfigError(
                f"{name} has {address!r}, a relative path, but a pipeline's step runs in another"
                " folder; give an absolute path, or gs://"
            )


def fill(pattern: str, moment: datetime.datetime) -> str:
    """Return a pattern with the dates of a moment."""

    def filled(match: re.Match[str]) -> str:
        offset = duration(match["offset"]) if match["offset"] else datetime.timedelta()
        return (moment + offset).strftime(match["form"])

    return PLACEHOLDER.sub(filled, pattern)


def expand(
    pattern: str, moment: datetime.datetime, window: datetime.timedelta | None
) -> dict[str, datetime.datetime]:
    """Return the patterns of a window that ends with a moment, each with its first moment.

    Without a window, or without a date in the pattern, there is one. A pattern with hours has one
    for each hour of the window, any other for each day; equal ones, as of a month, occur once.
    """
    if window is None or not has_dates(pattern):
        return {fill(pattern, moment): moment}
    has_hours = any("%H" in match["form"] for match in PLACEHOLDER.finditer(pattern))
    step = datetime.timedelta(hours=1) if has_hours else datetime.timedelta(days=1)
    names: dict[str, datetime.datetime] = {}
    for number in reversed(range(window // step)):
        names.setdefault(fill(pattern, moment - number * step), moment - number * step)
    return names


def moment_of(text: str, *, zone: datetime.tzinfo) -> datetime.datetime:
    """Return the moment of a date, which is its midnight, or of a time, in its zone or the default.

    Raises:
        ValueError: It is neither, or in a year with which calendars cannot calculate.
    """
    moment = datetime.datetime.fromisoformat(text)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"the year of {text} is not from {FIRST_YEAR} to {LAST_YEAR}")
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def duration(text: str) -> datetime.timedelta:
    """Return the duration of a text such as `30m`, `-12h`, `30d` or `2w`."""
    return datetime.timedelta(**{UNITS[text[-1]]: int(text[:-1])})


def without_dates(patterns: Sequence[str]) -> list[str]:
    """Return patterns with `*` instead of each date, for a look at the files of any date."""
    return [PLACEHOLDER.sub("*", pattern) for pattern in patterns]
