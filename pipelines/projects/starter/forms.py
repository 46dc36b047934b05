"""Forms of the texts of a column: numbers or times, if one form reads all that are no missing mark.

Two forms may read all texts, as 1.239, or 01/02/2024. Then the texts decide only if their evidence
is total; else the form must be told, by `--written`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from shlex import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.values.times import parse_times
from components.prepare_examples.tables.values.written import fit_float32, numbers_of
from pipelines.projects.starter.column import (
    FEWEST_NUMBERS,
    MISSING,
    MISSING_NUMBERS,
    MOST_ODD,
    NUMBER,
    Form,
    Reading,
    TableColumn,
)
from trainer.workloads.declarations.features import Timestamp
from trainer.workloads.declarations.features.times import MONTH
from trainer.workloads.declarations.written import DIGITS, NEGATIVE, PLAIN, Written

MAX_TRIED = 2_000  # distinct values whose signs are looked at
MOST_UNITS = 3
TEXT = "text"  # the form of a column that is read as texts
TOO_LARGE = "is too large for a float32"
DOUBTS = (
    "all values may be read in both ways; give the right option (without NAME= it holds for all"
    " such columns)"
)

SIGN = re.compile(r"[%‰+]|USD|EUR|GBP|CHF|JPY|CNY|INR|(?:Rs|kr|руб|zł|Kč|Ft)\.?|[A-Z]{1,3}\$")  # noqa: RUF001
MAGNITUDES = {"K": "1000", "k": "1000", "M": "1000000", "Mio": "1000000", "B": "1000000000"}
# The form of a single unit, and that of several, which are words behind a blank.
UNITS = (r" *[°µ²³/\w]{1,8}\.?", r" [°µ²³/\w]{2,8}\.?")
THOUSAND = 1_000
# A number as a program writes it, without a sign around its digits.
UNSIGNED = re.compile(r"[-+]?\d+(?:\.\d+)?")
CODE = r"^0[0-9]+$"

# The formats that are tried, besides ISO 8601: those with the signs between digits of a text.
DAYS = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%Y/%m/%d"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%Y.%m.%d", "%Y年%m月%d日", "%Y-%m-%d"),
    *("%d %b %Y", "%d. %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%d %b %y", "%d de %b de %Y"),
    *("%b %d, %Y", "%b %d %Y", "%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%Y%m%dT%H%M%S"),
)
CLOCKS = (
    *("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p"),
    *(" %I:%M%p", " %Hh%M", ", %H:%M", " um %H:%M Uhr", " %H:%M:%S GMT", ":%H:%M:%S %z"),
    *(" %H:%M:%S %z", " %H:%M:%S%z"),
)
FORMATS = [
    f"{week}{day}{clock}" for week in ("", "%a, ", "%A, ") for day in DAYS for clock in CLOCKS
]
MAX_SHAPES = 20  # distinct values whose formats are tried
LIKE_TIME = (
    rf"^(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d\d))"
    rf"(?![-/.\d])|{MONTH.pattern[4:]}.*\d{{4}}"
)


def read_forms(
    columns: Sequence[TableColumn], told: Mapping[str, str], separators: set[str]
) -> None:
    """Set the reading of each column.

    Args:
        columns: with their texts.
        told: the form of columns by name: one of DIGITS, a format of times, or TEXT; that of ""
            decides about all columns that have several.
        separators: the separators of the files.

    Raises:
        DataError: a form does not read its column, or columns have several; names the options.
    """
    names = [column.name for column in columns]
    if unknown := [name for name in told if name and name not in names]:
        raise DataError(f"--written {unknown[0]}: the columns are {', '.join(names)}")
    doubts = []
    for column in columns:
        own = told.get(column.name, "") * bool(column.name)
        texts = pa.array([*column.counts], pa.string())
        is_plain = column.stored == NUMBER and not own
        readings = _readings(column, texts, PLAIN if is_plain else own)
        if len(readings) > 1:
            is_point = separators <= {",", "|"}
            readings = _decided(readings, texts, told.get("", ""), is_point=is_point)
        markers = [text for text in MISSING if text in column.counts]
        column.reading = next(iter(readings.values()), Reading(markers=markers))
        if own not in ("", TEXT) and not readings:
            form = (_number_forms(texts, own) | _time_forms(texts, own))[own]
            unread = texts.filter(_values(texts, form).is_null()).to_pylist() or [""]
            raise DataError(
                f"--written {column.name}={own}: it does not read all values, as {unread[0]!r}"
            )
        if len(readings) > 1 and column.num_unique > 1:  # one tells nothing in any form
            doubts.append(_doubt(column.name, readings, texts))
    if doubts:
        raise DataError(f"{'; '.join(doubts)}: {DOUBTS}")


def _readings(column: TableColumn, texts: pa.Array, told: str) -> dict[str, Reading]:
    """Return the readings of a column with the fewest odd texts in different forms, by option."""
    tried = texts[:MAX_TRIED]
    has_digits = pc.any(pc.match_substring_regex(tried, r"\d")).as_py()
    for forms in (_number_forms, _time_forms) if has_digits and told != TEXT else ():
        found: dict[str, Reading] = {}
        for option, form in forms(texts, told).items():
            if _values(tried, form).null_count > len(tried) / 2 + len(MISSING_NUMBERS):
                continue
            values = _values(texts, form)
            reading = _reading(column, form, texts, values)
            if reading and not any(values.equals(other.values) for other in found.values()):
                found[option] = reading
        if found:
            least = min(reading.num_odd for reading in found.values())
            return {option: own for option, own in found.items() if own.num_odd == least}
    return {}


def _decided(
    readings: dict[str, Reading], texts: pa.Array, told: str, *, is_point: bool
) -> dict[str, Reading]:
    """Return the reading that is told, or that of numbers which total evidence allows; else all.

    Evidence is: all texts with a sign have groups of three digits, all others are below 1,000.
    In a file with commas between fields the decimal sign is a point; if that is against the
    evidence, nothing decides.
    """
    options = [option for option in readings if option in DIGITS]
    for option in options:
        sign, comma = DIGITS[option]
        has_comma = pc.match_substring(texts, comma or sign)
        others = readings[option].values.filter(pc.invert(has_comma)).drop_null()
        if comma and 0 < len(others) < len(readings[option].values.drop_null()):
            is_grouped = pc.max(pc.abs(others)).as_py() < THOUSAND
            if not is_point:
                options = [other for other in options if (other == option) == is_grouped]
            elif is_grouped and sign != ".":
                options = []  # the file and the column speak against each other
            break
    if is_point:
        options = [option for option in options if DIGITS[option][0] == "."]
    chosen = [told] if told in readings else options
    return {chosen[0]: readings[chosen[0]]} if len(chosen) == 1 else readings


def _doubt(name: str, readings: Mapping[str, Reading], texts: pa.Array) -> str:
    """Return a text that readings differ about, and each with its option."""
    first, second, *_ = (reading.values for reading in readings.values())
    is_same = pc.or_(pc.equal(first, second).fill_null(False), first.is_null())
    at = pc.index(is_same, False).as_py()
    shown = []
    for option, reading in readings.items():
        values = reading.values if option in DIGITS else reading.values.cast(pa.timestamp("s"))
        shown.append(f"{values.cast(pa.string())[at]} (--written {quote(f'{name}={option}')})")
    return f"{name}: {texts[at].as_py()!r} is {' or '.join(shown)}"


def _values(texts: pa.Array, form: Form | None) -> pa.Array:
    """Return numbers, or seconds; null for other texts."""
    if not isinstance(form, Timestamp):
        return numbers_of(texts, form or Written())
    seconds = seconds_in(texts, form)
    is_iso = pc.match_substring_regex(texts, r"^\d{4}[-/]")  # unlike Unix seconds and 1/2/2016
    return seconds if form.format else pc.if_else(is_iso, seconds, None)


def seconds_in(texts: pa.Array, form: Timestamp) -> pa.Array:
    """Return the seconds of times; null for other texts."""
    return parse_times(texts, BadRows(), form, zones=Counter())


def times_of(column: TableColumn) -> pa.Array:
    """Return the seconds of each row of a Timestamp, float64; null for a missing one."""
    time = Timestamp(column.declared, **column.arguments)
    return seconds_in(column.values, time).cast(pa.float64())


def _reading(
    column: TableColumn, form: Form, distinct: pa.Array, values: pa.Array
) -> Reading | None:
    """Return the reading of texts in a form; None if it is not theirs.

    A text that occurs several times may mean a missing value, one that occurs once is a mistake.
    So are all numbers that are too large, unless a single one occurs several times.
    """
    counts = column.counts
    most = max(1, MOST_ODD * sum(counts.values()))  # mistakes
    if values.null_count > most + len(MISSING_NUMBERS) + MOST_UNITS + 1:
        return None
    is_read = pa.array(fit_float32(np.asarray(values.cast(pa.float64()).fill_null(np.nan))))
    read, left = distinct.filter(is_read), distinct.filter(pc.invert(is_read)).to_pylist()
    is_code = isinstance(form, Written) and pc.any(pc.match_substring_regex(read, CODE)).as_py()
    if not len(read) or is_code:
        return None
    large = {*distinct.filter(pc.and_not(values.is_valid(), is_read)).to_pylist()}
    signs = form.factors if isinstance(form, Written) else {}
    known = [text for text in left if text in MISSING_NUMBERS or text in signs]
    odd = [text for text in left if text not in known]
    repeated = [text for text in odd if counts[text] > 1]
    if len(repeated) > 1:
        repeated = [text for text in repeated if text not in large]
    mistakes = [text for text in odd if text not in repeated]
    is_other = len(repeated) > (len(read) >= FEWEST_NUMBERS) or len(mistakes) >= len(read)
    if is_other or len({*mistakes} - large) > most:
        return None
    why = "is not a number" if isinstance(form, Written) else "is not a time"
    reasons = {text: TOO_LARGE if text in large else why for text in mistakes}
    return Reading(form, values, [*known, *repeated], reasons)


def _number_forms(distinct: pa.Array, told: str) -> dict[str, Form]:
    """Return the forms of digits that texts may have, with their signs."""
    texts = distinct.to_pylist()
    signs, joined = _signs(texts[:MAX_TRIED]), "".join(texts)
    usual = [form for form, (point, comma) in DIGITS.items() if (comma or point) in joined]
    options = [told] if told else dict.fromkeys([PLAIN, *usual])
    return {form: Written(written=form, signs=signs) for form in options if form in DIGITS}


def _signs(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the currencies, percent signs and units that texts have around their digits."""
    texts = [text for text in texts if re.search(r"\d", text)]
    plain = [text for text in texts if UNSIGNED.fullmatch(text)]
    signed = [text for text in texts if not UNSIGNED.fullmatch(text)]
    ends = [re.split(r"\d", text) for text in signed]
    heads = Counter(parts[0].strip(" +-,(") for parts in ends)
    tails = Counter(parts[-1].rstrip(" ,)") for parts in ends)
    del heads["."], tails["."]  # of .5 and 5.
    found = [text for text, _ in (heads + tails).most_common() if text]
    signs = [text for text in dict.fromkeys(map(str.strip, found)) if _is_sign(text)]
    if "%" in signs and max(map(float, plain), default=THOUSAND) <= 1:
        signs[signs.index("%")] = "%=0.01"
    units = [tail for tail in tails if tail and not _is_sign(tail.strip())]
    if {*map(str.strip, units)} <= MAGNITUDES.keys():
        signs += [f"{unit}={MAGNITUDES[unit]}" for unit in dict.fromkeys(map(str.strip, units))]
    elif len(units) <= MOST_UNITS and all(map(re.compile(UNITS[len(units) > 1]).fullmatch, units)):
        has_unit = sum(tails[unit] for unit in units) >= len(texts) * (1 - MOST_ODD) - 1
        signs += [unit.strip() for unit in units] * (has_unit and len(texts) > 1)
    return (
        *signs,
        *(sign for sign, form in NEGATIVE.items() if any(map(re.compile(form).match, signed))),
    )


def _is_sign(text: str) -> bool:
    is_currency = len(text) == 1 and unicodedata.category(text) == "Sc"
    return is_currency or bool(SIGN.fullmatch(text))


def _time_forms(distinct: pa.Array, told: str) -> dict[str, Form]:
    """Return the formats with the signs that some texts have, and "" of ISO 8601."""
    shapes = {_shape(MONTH.sub("b", text)) for text in distinct[:MAX_SHAPES].to_pylist()}
    usual = [form for form in FORMATS if _shape(form.replace("%z", "+")) in shapes]
    forms: dict[str, Form] = {}
    for form in [told] if told else ["", *usual]:
        time, now = Timestamp("", format=form), datetime.now(UTC)
        if "%y" in form and (pc.max(_values(distinct, time)).as_py() or 0) > now.timestamp():
            time = replace(time, last_year=now.year)
        forms |= {form: time} if form not in DIGITS else {}
    return forms


def _shape(text: str) -> str:
    """Return the signs of a time or format that are no letters or digits."""
    return re.sub(r"%?\w", "", text)
