"""Guesses of features from the columns of a table, each with what was seen."""

import json
import re
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.columns import INDEX_NAMES
from components.prepare_examples.tables.table_schema import TIME, Column
from components.prepare_examples.tables.values.times import parse_times
from pipelines.projects.starter.columns import Texts
from pipelines.projects.starter.typed_columns import LIST_SEPARATOR
from trainer.workloads.declarations.features import UNIX_UNITS
from trainer.workloads.declarations.names import normal_form

FEATURE, KEY, GROUP, IGNORED = "feature", "key", "group", "ignored"
FORMATS = (
    *("", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%Y%m%d", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"),
    *("%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%m/%d/%y"),
)
MAX_TRIED = 2_000  # values whose format of a time is tried
MAX_VOCABULARY = 1_000
MOST_CODES = 50  # distinct values that are categories, however few rows there are
FEW_SHARE = 0.005  # of rows with a value: too few to learn from
LARGE_SHARE = 0.9  # of distinct values: an identifier
SKEW = 20  # times the median
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # in CustomerID
ID_NAME = re.compile(r"(^|_)(id|uuid|guid|key|rowid|row_id|index|nr|no)$")
TIME_NAME = re.compile(
    r"(^|_)(date|time|timestamp|at|on|day|ts|ms|datetime|epoch|unix|created|updated)($|_)"
)
CODE_NAME = re.compile(
    r"(^|_)(zip|zipcode|postcode|code|type|kind|class|category|cat|area|region)$"
)
SECONDS = (300_000_000, 4_000_000_000)  # 1979 to 2096, as Unix seconds
DAYS = (19_000_101, 22_000_101)  # as %Y%m%d
UNUSABLE = "write numbers, texts, times, or lists of them to use it"
MOST_INFINITE = 0.02  # of rows, which are quarantined
DIGITS = r"^[0-9]+$"
WORDS = 3  # mean number of words from which a column is a text


@dataclass(frozen=True)
class Guess:
    """Guess of the role of a column.

    Attributes:
        column: its texts.
        role: FEATURE, KEY, GROUP or IGNORED.
        kind: of a feature, such as `Number`; else "".
        arguments: of the declaration, after the name.
        seen: what was seen, in words.
        is_said: the guess is unusual enough to be said on the terminal.
    """

    column: Texts
    role: str
    kind: str = ""
    arguments: str = ""
    seen: str = ""
    is_said: bool = False

    @property
    def name(self) -> str:
        """The name in the declaration, which is also that of an input of the model."""
        return self.column.declared

    @property
    def declaration(self) -> str:
        """The feature's declaration."""
        more = [*filter(None, [self.arguments]), *self.column.arguments(self.kind)]
        return f"{self.kind}({', '.join([quoted(self.name), *more])})"


def quoted(text: str) -> str:
    """Return a text as Python source with double quotes."""
    return json.dumps(text, ensure_ascii=False)


def guess(column: Texts, num_rows: int) -> Guess:
    """Return what a column seems to be."""
    form = normal_form(WORD_START.sub("_", column.name))
    num_missing = num_rows - len(column.present) - len(column.reading.odd)
    missing = f"; missing in {num_missing:,} rows" if num_missing else ""
    if found := _typed(column, num_rows):
        return found
    if reason := _useless(column, form, num_rows):
        return Guess(column, IGNORED, seen=reason)
    if found := _identifier(column, form, num_rows):
        return found
    found = (
        _codes(column) or _time(column, form) or (_number(column, form) or _words(column, num_rows))
    )
    return replace(found, seen=found.seen + missing)


def _typed(column: Texts, num_rows: int) -> Guess | None:
    """Return the guess that the types of a Parquet or JSON file tell."""
    facts = column.facts
    if facts.unusable:
        return Guess(column, IGNORED, seen=f"values of the type {facts.unusable}: {UNUSABLE}")
    if facts.num_infinite > MOST_INFINITE * num_rows:
        seen = f"infinite in {facts.num_infinite:,} rows: write them as empty to use it"
        return Guess(column, IGNORED, seen=seen)
    if facts.length:
        seen = f"lists of {facts.length} numbers"
        return Guess(column, FEATURE, "Number", f"length={facts.length}", seen)
    return None


def _useless(column: Texts, form: str, num_rows: int) -> str:
    """Return why nothing can be learnt from a column, or ""."""
    num_missing = num_rows - len(column.present)
    if not len(column.present):
        return "empty in all rows"
    if len(column.present) < FEW_SHARE * num_rows:
        return f"missing in {num_missing:,} of {num_rows:,} rows"
    if form in INDEX_NAMES:
        return "the numbers of the rows"
    is_constant = column.num_unique == 1 and not num_missing
    return f"{column.ranked[0][0]!r} in all rows" if is_constant else ""


def _identifier(column: Texts, form: str, num_rows: int) -> Guess | None:
    """Return the guess for a column that identifies rows, or things with several rows."""
    if column.num_unique == num_rows and column.is_whole:
        span = column.summary["max"] - column.summary["min"] + 1
        if span == num_rows:
            return Guess(column, KEY, seen="consecutive numbers, another in every row")
    if not ID_NAME.search(form) or not (column.numbers is None or column.is_whole):
        return None
    if column.num_unique == num_rows:
        return Guess(column, KEY, seen="another value in every row")
    num_present = len(column.present)
    if num_present == num_rows and column.num_unique > max(20, num_rows / 100):
        mean = num_rows / column.num_unique
        return Guess(column, GROUP, seen=f"{column.num_unique:,} values, {mean:.1f} rows of each")
    return None


def _codes(column: Texts) -> Guess | None:
    """Return the guess for digits with zeros in front; others are read as numbers."""
    texts = column.present
    is_code = column.reading.form is None and pc.all(pc.match_substring_regex(texts, DIGITS))
    if not is_code or not is_code.as_py():
        return None
    argument = f"hashed={_size(column)}" if column.num_unique > MAX_VOCABULARY else ""
    seen = f"codes with zeros in front, such as {pc.min(texts).as_py()}; {_shares(column)}"
    return Guess(column, FEATURE, "Category", argument, seen, is_said=True)


def _time(column: Texts, form: str) -> Guess | None:
    """Return the guess for a column of times; a format must fit all values that are tried."""
    first, last = pc.min(column.present).as_py(), pc.max(column.present).as_py()
    if column.facts.kind == "time":
        return Guess(column, FEATURE, "Timestamp", seen=f"{first} to {last}")
    if column.numbers is not None and not (column.is_whole and TIME_NAME.search(form)):
        return None
    if unit := _unix_unit(column):
        argument = "" if unit == "seconds" else f"format={quoted(unit)}"
        seen = f"Unix {unit}"
        return Guess(column, FEATURE, "Timestamp", argument, seen, is_said=bool(argument))
    formats = (
        FORMATS if column.numbers is None else ("%Y%m%d",) if _are_within(column, DAYS) else ()
    )
    tried = column.present.unique()[:MAX_TRIED]
    fitting = [one for one in formats if _fits(tried, one)]
    if not fitting:
        return None
    chosen = fitting[0]
    also = f"; {', '.join(fitting[1:])} would fit, too" if len(fitting) > 1 and chosen else ""
    has_hours = bool(re.search(r"\d:\d\d", tried[0].as_py()))
    arguments = [f"format={quoted(chosen)}"] if chosen else []
    arguments += [] if has_hours else ['parts=("month", "weekday")']
    seen = f"such as {tried[0].as_py()}{also}"
    return Guess(column, FEATURE, "Timestamp", ", ".join(arguments), seen)


def _unix_unit(column: Texts) -> str:
    """Return the unit of numbers that are Unix times of our days, or ""."""
    for unit, size in {"seconds": 1, **UNIX_UNITS}.items():
        if _are_within(column, (SECONDS[0] * size, SECONDS[1] * size)):
            return unit
    return ""


def _are_within(column: Texts, limits: tuple[int, int]) -> bool:
    """Return whether a column has numbers, all within limits."""
    if column.numbers is None:
        return False
    return bool(limits[0] <= column.summary["min"] and column.summary["max"] <= limits[1])


def _fits(texts: pa.Array, spelling: str) -> bool:
    bad = BadRows()
    parse_times(texts, bad, Column(name="time", kind=TIME, format=spelling), zones=Counter())
    return not bad.reasons


def _number(column: Texts, form: str) -> Guess | None:
    if column.numbers is None:
        return None
    found = column.summary
    low, high = found["min"], found["max"]
    seen = f"{low:g} to {high:g}, {column.num_unique:,} values"
    if column.is_whole and CODE_NAME.search(form):
        if column.num_unique > max(MOST_CODES, len(column.present) / 2):
            return Guess(column, IGNORED, seen=f"{seen}: codes, too many to learn from")
        argument = f"hashed={_size(column)}" if column.num_unique > MAX_VOCABULARY else ""
        return Guess(column, FEATURE, "Category", argument, f"{seen}: codes, by the name")
    arguments = ["low=0"] if low >= 0 else []
    seen += ", none below 0" if low >= 0 else ""
    median, top = found["quantiles"][50], found["quantiles"][99]
    if low >= 0 and median > 0 and top > SKEW * median:
        arguments.append("is_logarithmic=True")
        seen += f"; half of them below {median:g}"
    return Guess(column, FEATURE, "Number", ", ".join(arguments), seen)


def _words(column: Texts, num_rows: int) -> Guess:
    texts, unique = column.present, column.num_unique
    if _is_list(texts, column):
        argument = f"separator={quoted(LIST_SEPARATOR)}"
        return Guess(column, FEATURE, "Category", argument, f"lists, such as {texts[0].as_py()!r}")
    words = pc.mean(pc.count_substring(texts, " ")).as_py() + 1
    is_unique = unique > max(LARGE_SHARE * num_rows, MOST_CODES)
    has_many_words = words >= WORDS and unique > max(MOST_CODES, len(texts) / 10)
    if has_many_words or (is_unique and words >= 2):  # noqa: PLR2004
        return Guess(column, FEATURE, "Text", seen=f"{unique:,} texts of {words:.0f} words")
    if is_unique:
        return Guess(column, IGNORED, seen="another value in nearly every row: an identifier")
    argument = f"hashed={_size(column)}" if unique > MAX_VOCABULARY else ""
    return Guess(column, FEATURE, "Category", argument, _shares(column))


def _is_list(texts: pa.Array, column: Texts) -> bool:
    if column.facts.kind == "list":
        return True
    has_sign = pc.match_substring(texts, LIST_SEPARATOR)
    num_parts = len(pc.list_flatten(pc.split_pattern(texts, LIST_SEPARATOR)).unique())
    return pc.mean(has_sign.cast(pa.int8())).as_py() > 0.2 and num_parts <= MAX_VOCABULARY  # noqa: PLR2004


def _shares(column: Texts) -> str:
    total = len(column.present)
    shown = [f"{value} {count / total:.0%}" for value, count in column.ranked[:3]]
    more = f", … ({column.num_unique:,} values)" if column.num_unique > len(shown) else ""
    return ", ".join(shown) + more


def _size(column: Texts) -> int:
    """Return a round number of hash buckets: about twice the number of values."""
    size = 1_000
    while size < column.num_unique:
        size *= 10
    return min(size, 1_000_000)
