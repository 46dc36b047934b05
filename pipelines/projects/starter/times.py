"""Guesses of times: Unix times, and texts in one of many formats."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.values.times import parse_times
from pipelines.projects.starter.texts import FEATURE, IGNORED, Guess, Texts
from trainer import Json
from trainer.workloads.declarations.features import UNIX_UNITS, Timestamp

FORMATS = (
    *("", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%Y%m%d", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"),
    *("%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%m/%d/%y"),
    *("%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%d-%m-%Y %H:%M"),
    *("%m/%d/%y %H:%M", "%Y%m%dT%H%M%S", "%Y-%m", "%b-%Y", "%d.%m.%y", "%d.%m.%y %H:%M"),
    *("%d/%m/%y", "%m/%d/%Y %I:%M %p", "%m/%d/%y %I:%M %p"),
)
MAX_TRIED = 2_000  # values whose format of a time is tried
TIME_NAME = re.compile(
    r"(^|_)(date|time|timestamp|at|on|day|ts|ms|datetime|epoch|unix|created|updated)($|_)"
)
SECONDS = (300_000_000, 4_000_000_000)  # 1979 to 2096, as Unix seconds
DAYS = (19_000_101, 22_000_101)  # as %Y%m%d
DIGITS = r"^[0-9]*$"  # not of a time, unless all values are numbers
MOST_FORMS = 3  # formats in one column that are told


def guess_time(column: Texts, form: str) -> Guess | None:
    """Return the guess for a column of times; None if it has others.

    A format must fit all values that are tried, but for a few that occur once: they are mistakes.
    """
    first, last = pc.min(column.present).as_py(), pc.max(column.present).as_py()
    if column.facts.kind == "time":
        return Guess(column, FEATURE, "Timestamp", seen=f"{first} to {last}")
    if column.numbers is not None and not (column.is_whole and TIME_NAME.search(form)):
        return None
    if unit := _unix_unit(column):
        arguments = {} if unit == "seconds" else {"format": unit}
        seen = f"Unix {unit}"
        return Guess(column, FEATURE, "Timestamp", arguments, seen, is_said=bool(arguments))
    if column.numbers is None:
        return _texts(column, FORMATS)
    return _texts(column, ("%Y%m%d",)) if _are_within(column, DAYS) else None


def _texts(column: Texts, formats: tuple[str, ...]) -> Guess | None:
    tried = column.present.unique()[:MAX_TRIED]
    fits = {spelling: _fits(tried, spelling) for spelling in formats}
    most = max(int(is_fit.sum()) for is_fit in fits.values())
    fitting = [spelling for spelling, is_fit in fits.items() if is_fit.sum() == most]
    chosen = fitting[0]
    unfit = tried.filter(pa.array(~fits[chosen])).to_pylist()
    if not most:
        return None
    if unfit and (len(unfit) >= most or unfit != column.mistakes(unfit)):
        return _several_forms(column, tried, fits)
    column = replace(column, reading=column.reading.without(unfit, "is not a time"))
    example = tried[int(np.argmax(fits[chosen]))].as_py()
    also = f"; {', '.join(fitting[1:])} would fit, too" if len(fitting) > 1 and chosen else ""
    has_hours = bool(re.search(r"\d:\d\d", example))
    arguments: Json = {"format": chosen} if chosen else {}
    arguments |= {} if has_hours else {"parts": _parts(tried, chosen)}
    seen = f"such as {example}{also}"
    return Guess(column, FEATURE, "Timestamp", arguments, seen, is_said=bool(also))


def _parts(texts: pa.Array, spelling: str) -> tuple[str, ...]:
    """Return the parts of days: the year, if they are of the same day of each year."""
    days = _parsed(texts, spelling, BadRows()).cast(pa.timestamp("s"))
    is_yearly = len(pc.strftime(days.drop_null(), "%m-%d").unique()) == 1
    return ("year",) if is_yearly else ("month", "weekday")


def _parsed(texts: pa.Array, spelling: str, bad: BadRows) -> pa.Array:
    column = Timestamp("time", format=spelling)
    return parse_times(texts, bad, column, zones=Counter())


def _several_forms(
    column: Texts, tried: pa.Array, fits: dict[str, NDArray[np.bool_]]
) -> Guess | None:
    """Return the guess for a column whose times have several formats; None if some have none."""
    is_left, examples = np.ones(len(tried), bool), list[str]()
    for _ in range(MOST_FORMS):
        is_fit = max(fits.values(), key=lambda is_fit: int((is_fit & is_left).sum())) & is_left
        if is_fit.any():
            examples.append(repr(tried[int(np.argmax(is_fit))].as_py()))
            is_left &= ~is_fit
    if is_left.any():
        return None
    seen = f"times in several formats, such as {' and '.join(examples)}: write them in one"
    return Guess(column, IGNORED, seen=seen)


def _unix_unit(column: Texts) -> str:
    """Return the unit of numbers that are Unix times of our days, or ""."""
    for unit, size in {"seconds": 1, **UNIX_UNITS}.items():
        if _are_within(column, (SECONDS[0] * size, SECONDS[1] * size)):
            return unit
    return ""


def _are_within(column: Texts, limits: tuple[int, int]) -> bool:
    if column.numbers is None:
        return False
    return bool(limits[0] <= column.summary["min"] and column.summary["max"] <= limits[1])


def _fits(texts: pa.Array, spelling: str) -> NDArray[np.bool_]:
    bad = BadRows()
    _parsed(texts, spelling, bad)
    is_fit = np.ones(len(texts), bool)
    is_fit[list(bad.reasons)] = False
    if not spelling:
        is_fit &= ~pc.match_substring_regex(texts, DIGITS).to_numpy(zero_copy_only=False)
    return is_fit
