"""Guesses of features from the columns of a table, each with what was seen."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.evaluate.gate.telling import Floats
from components.evaluate.leaks import TrainColumn
from components.prepare_examples.tables.columns import INDEX_NAMES
from components.prepare_examples.tables.values.times import part_of
from pipelines.projects.leaks import AFTER, codes_of, find_leaks
from pipelines.projects.starter.column import (
    FEATURE,
    GROUP,
    IGNORED,
    KEY,
    LIST_SEPARATOR,
    MAX_VOCABULARY,
    TableColumn,
    rows_text,
)
from pipelines.projects.starter.doubts import TIME_OF_DAY, digit_formats, doubt_of
from pipelines.projects.starter.forms import TOO_LARGE, seconds_in, times_of
from trainer import Json
from trainer.workloads.declarations.features import TIME_PARTS, UNIX_UNITS, Timestamp
from trainer.workloads.declarations.names import normal_form

MOST_CODES = 50  # distinct values that are categories, however few rows there are
FEW_SHARE, FEW_ROWS = 0.005, 5  # with a value: too few to learn from
LARGE_SHARE = 0.9  # of distinct values: an identifier
SKEW = 20  # times the median
DENSE = 1.5  # numbers of rows in the span of different whole numbers that number the rows
KEPT_APART = 0.9  # of distinct whole numbers, which a float32 holds; less are codes
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # in CustomerID
ID_NAME = re.compile(
    r"(^|_)(id|uuid|guid|key|rowid|row_id|index|nr|no|patient|subject|participant|person|customer"
    r"|client|user|member|student|employee|household|device|session)$"
)
COUNT_NAME = re.compile(r"_(nr|no)$")
CODE_NAME = re.compile(
    r"(^|_)(zip|zipcode|postcode|code|type|kind|class|category|cat|community_area|region|flight|id)$"
)
# Of numbers that may be below 0 in other rows.
SIGNED_NAME = re.compile(
    r"(^|_)(lat|latitude|lon|lng|longitude|temp|temperatur|temperature|celsius|balance|saldo|change"
    r"|delta|diff|difference|growth|profit|margin|altitude|elevation)($|_)"
)
TIME_NAME = re.compile(
    r"(^|_)(date|time|timestamp|at|on|day|month|ts|ms|datetime|epoch|unix|created|updated)($|_)"
)
UNIX = (300_000_000, 4_000_000_000)  # whole numbers from and to these are times of 1979 to 2096
USUAL = Timestamp("")
UNUSABLE = "write numbers, texts, times, or lists of them to use it"
MOST_INFINITE = 0.05  # of rows, which are quarantined: of more a run fails
DIGITS = r"^[0-9]+$"
MOST_BUCKETS = 1_000_000
WORDS = 3  # mean number of words from which a column is a text


def guess_roles(columns: Sequence[TableColumn], num_rows: int, *, has_key: bool = False) -> None:
    """Guess what columns are; one decides about the split, a key or a group.

    With `has_key` none of them does.
    """
    for column in columns:
        _guess_role(column, num_rows)
    deciding = [column for role in (KEY, GROUP) for column in columns if column.role == role]
    for column in deciding[not has_key :]:
        column.role = IGNORED
    for column in deciding:
        column.seen += ", all in the same split" * (column.role == GROUP)


def use_keys(columns: Sequence[TableColumn]) -> None:
    """Have numbers of the rows be features if there are no others: x of a curve, perhaps."""
    if not any(column.role == FEATURE for column in columns):
        for column in columns:
            if column.kind == "Number":
                column.role, column.is_said = FEATURE, True


def leaks_of(features: Sequence[TableColumn], label: TableColumn) -> dict[TableColumn, str]:
    """Return a warning for each feature that tells the label, alone or with others."""
    has_classes = label.kind in ("Binary", "Classes")
    columns = []
    for column in features:
        codes = codes_of(column.values)
        is_flag = column.kind == "Category" and column.num_unique == 2  # noqa: PLR2004
        values = times_of(column) if column.kind == "Timestamp" else column.numbers
        numbers = codes if is_flag else np.asarray(values)
        columns.append(TrainColumn(column.declared, codes, numbers))
    values = codes_of(label.values) if has_classes else np.asarray(label.numbers)
    words = find_leaks(columns, values, has_classes=has_classes)
    return {
        column: f"tells {label.name} {words[column.declared]}: {AFTER}"
        for column in features
        if column.declared in words
    }


def _guess_role(column: TableColumn, num_rows: int) -> None:
    """Guess what a column of a table is."""
    form = normal_form(WORD_START.sub("_", column.name))
    if reason := _useless(column, form, num_rows):
        column.guess(IGNORED, seen=reason)
        return
    if length := column.length:
        seen = f"lists of {length} numbers"
        column.guess(FEATURE, "Number", {"length": length}, seen=seen)
        return
    if not (_is_time(column, form) or _is_identifier(column, form, num_rows)):
        if not _is_number(column, form):
            _guess_words(column, num_rows)
        if doubt := doubt_of(column):
            column.seen, column.is_said = column.seen + doubt, True
    if num_missing := num_rows - len(column.present) - len(column.reading.mistakes):
        column.seen += f"; missing in {rows_text(num_missing)}"
    if column.perhaps_missing and column.role == FEATURE:
        column.seen += f"; perhaps missing: {', '.join(map(repr, column.perhaps_missing))}"


def _useless(column: TableColumn, form: str, num_rows: int) -> str:
    """Return why a column cannot be a feature, or ""."""
    num_present = len(column.present)
    large = [text for text, why in column.reading.mistakes.items() if why == TOO_LARGE]
    num_infinite = column.num_infinite + sum(column.counts[text] for text in large)
    what = f"{large[0]!r} and the like" if large else "infinite"
    reasons = {
        f"values of the type {column.unusable}: {UNUSABLE}": column.unusable,
        f"{what} in {rows_text(num_infinite)}: write them as empty to use it": (
            num_infinite > MOST_INFINITE * num_rows
        ),
        "empty in all rows": not num_present,
        f"missing in {num_rows - num_present:,} of {num_rows:,} rows": (
            num_present < max(FEW_SHARE * num_rows, FEW_ROWS)
        ),
        "an index of the rows": form in INDEX_NAMES,
        f"{''.join(column.present[:1].to_pylist())!r} in all rows": (
            column.num_unique == 1 and num_present == num_rows
        ),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "")


def _is_identifier(column: TableColumn, form: str, num_rows: int) -> bool:
    """Return whether a column tells rows, or groups of rows, apart; then it is guessed."""
    is_unique = column.num_unique == num_rows
    if is_unique and (numbering := _numbering(np.asarray(column.numbers), column)):
        column.guess(KEY, "Number", seen=f"{numbering}, another in every row")
    elif not ID_NAME.search(form) or (column.written and not column.is_whole):
        return False
    elif is_unique:
        column.guess(KEY, seen="another value in every row")
    else:
        has_zero = column.written is not None and column.summary["min"] == 0
        is_count = has_zero and COUNT_NAME.search(form)  # sold_no
        is_few = len(column.present) < num_rows or column.num_unique <= max(20, num_rows / 100)
        if is_few or is_count:
            return False
        mean = num_rows / column.num_unique
        column.guess(GROUP, seen=f"ids: {column.num_unique:,} values, {mean:.1f} rows of each")
    return True


def _numbering(numbers: Floats, column: TableColumn) -> str:
    """Return how different numbers number the rows, in words, or "".

    Those with a currency or unit are amounts.
    """
    if column.written is None or column.written.signs:
        return ""
    if column.is_whole and (span := int(np.ptp(numbers)) + 1) <= DENSE * len(numbers):
        return "nearly consecutive numbers" if span > len(numbers) else "consecutive numbers"
    line, step = np.linspace(numbers[0], numbers[-1], len(numbers), retstep=True)
    is_even = np.abs(numbers - line).max() < abs(step) / 2  # they may be rounded
    return "numbers in equal steps" if is_even else ""


def _is_time(column: TableColumn, form: str) -> bool:
    """Return whether a column has times."""
    time = column.time or (_whole_time(column) if TIME_NAME.search(form) else None)
    if time is None:
        return False
    time = replace(time, parts=_parts_of(seconds_in(column.present.unique(), time).drop_null()))
    arguments = {
        name: own for name, own in vars(time).items() if name != "name" and own != vars(USUAL)[name]
    }
    is_unix = column.is_whole and "%" not in time.format
    seen = f"Unix {time.format or 'seconds'}" if is_unix else f"such as {column.present[0]}"
    column.guess(FEATURE, "Timestamp", arguments, seen=seen, is_said=time.format in UNIX_UNITS)
    return True


def _parts_of(seconds: pa.Array) -> tuple[str, ...]:
    """Return the parts that a model gets of times, by those in which they differ."""
    differ = {part for part in TIME_PARTS if len(part_of(seconds, part).unique()) > 1}
    if differ & {"hour", "minute"}:
        return USUAL.parts if differ & {"year", "month", "day"} else ("hour", "minute")
    if "day" in differ:
        return ("month", "weekday")
    return ("year", "month") if "month" in differ else ("year",)


def _whole_time(column: TableColumn) -> Timestamp | None:
    """Return the only format of whole numbers that are times, by their size or digits."""
    if not column.is_whole:
        return None
    low, high = column.summary["min"], column.summary["max"]
    sizes = {"": 1, **UNIX_UNITS}.items()
    units = [unit for unit, size in sizes if UNIX[0] * size <= low <= high <= UNIX[1] * size]
    formats = units or [*{*digit_formats(column.present.unique())} - {TIME_OF_DAY}]
    times = [Timestamp(column.name, format=form) for form in formats]
    is_one = len(times) == 1 and not seconds_in(column.present, times[0]).null_count
    return times[0] if is_one else None


def _is_number(column: TableColumn, form: str) -> bool:
    """Return whether a column has numbers; it may be a category of codes then."""
    if not column.written:
        return False
    summary = column.summary
    low, high = summary["min"], summary["max"]
    seen = f"{low:g} to {high:g}, {column.num_unique:,} values"
    kept = len(column.numbers.cast(pa.float32()).unique())
    is_named, is_long = CODE_NAME.search(form), kept < KEPT_APART * len(column.numbers.unique())
    if column.is_whole and (is_named or is_long):
        if column.num_unique > max(MOST_CODES, len(column.present) / 2):
            column.guess(IGNORED, seen=f"{seen}: codes, too many to learn from")
            return True
        why = "codes, by the name" if is_named else "codes with more digits than a Number keeps"
        _guess_category(column, f"{seen}: {why}", is_said=is_long)
        return True
    is_positive = low >= 0 and not SIGNED_NAME.search(form)
    arguments: Json = {"low": 0} if is_positive else {}
    seen += ", none below 0" * is_positive
    median, top = summary["quantiles"][50], summary["quantiles"][99]
    if is_positive and median > 0 and top > SKEW * median:
        arguments["is_logarithmic"] = True
        seen += f"; half of them below {median:g}"
    column.guess(FEATURE, "Number", arguments, seen=seen)
    return True


def _guess_words(column: TableColumn, num_rows: int) -> None:
    """Guess a list, a code, a text, an identifier or a category."""
    texts, unique = column.present, column.num_unique
    example = repr(texts[0].as_py())
    is_unique = unique > max(LARGE_SHARE * num_rows, MOST_CODES)
    words = pc.mean(pc.count_substring(texts, " ")).as_py() + 1
    has_many_words = words >= WORDS and unique > max(MOST_CODES, len(texts) / 10)
    has_letters = pc.any(pc.match_substring_regex(texts, r"\pL")).as_py()  # unlike telephones
    if column.is_list:
        arguments = {"separator": LIST_SEPARATOR}
        column.guess(FEATURE, "Category", arguments, seen=f"lists, such as {example}")
    elif pc.all(pc.match_substring_regex(texts, DIGITS)).as_py():
        seen = f"codes with zeros in front, such as {pc.min(texts).as_py()}; {_shares(column)}"
        _guess_category(column, seen, is_said=True)
    elif (has_many_words or (is_unique and words >= 2)) and has_letters:  # noqa: PLR2004
        column.guess(FEATURE, "Text", seen=f"{unique:,} texts of {words:.0f} words")
    elif is_unique:
        seen = f"another value in nearly every row, such as {example}: an identifier, or the key"
        column.guess(IGNORED, seen=seen)
    else:
        is_rare = unique > max(MOST_CODES, len(texts) / 2)
        seen = _shares(column) + "; few rows of each" * is_rare
        _guess_category(column, seen, is_said=is_rare)


def _guess_category(column: TableColumn, seen: str, *, is_said: bool) -> None:
    """Guess a category, of many values hashed to several times as many buckets."""
    num_buckets = min(10 ** len(str(column.num_unique)), MOST_BUCKETS)
    arguments = {"hashed": num_buckets} if column.num_unique > MAX_VOCABULARY else {}
    column.guess(FEATURE, "Category", arguments, seen=seen, is_said=is_said)


def _shares(column: TableColumn) -> str:
    total = len(column.present)
    shown = [f"{value} {column.counts[value] / total:.0%}" for value in column.ranked[:3]]
    more = f", … ({column.num_unique:,} values)" if column.num_unique > len(shown) else ""
    return ", ".join(shown) + more
