"""Other readings of values, in words: what they may be besides, and what to write then."""

import re
from shlex import quote

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.tables.values.times import part_of
from components.prepare_examples.tables.values.written import numbers_of
from components.shared.text.value_text import first_of
from pipelines.projects.literals import call
from pipelines.projects.starter.column import FEWEST_NUMBERS, MOST_ODD, POINT_ZERO, TableColumn
from pipelines.projects.starter.forms import CLOCKS, CODE, MOST_UNLIKE, seconds_in
from trainer.workloads.declarations.features import Timestamp
from trainer.workloads.declarations.written import Written

# The formats of whole numbers that are dates or times of day, with the number of their digits.
TIME_OF_DAY = "%H%M"
DIGIT_TIMES = {"%Y%m%d": 8, "%m%d%Y": 8, "%d%m%Y": 8, "%Y%m": 6, TIME_OF_DAY: 4}
YEARS = range(1900, 2200)
MANY_TIMES, MANY_HOURS = 50, 6  # different ones, which are no chance
CLOCK = r"^(\d+ days?,? \+?)?-?\d{1,3}(:[0-5]\d){1,2}(\.\d+)?( ?[AaPp][Mm])?$"
DAY_TIMES = [Timestamp("", format=clock.strip()) for clock in CLOCKS if clock.startswith(" %")]
UNIT = r"^[+-]?[0-9][0-9.,\' ]*(?P<unit>[^0-9.,:/\'\s]\S*)$"
ORDINALS = {"st", "nd", "rd", "th"}
MOST_UNITS = 5  # of a column
MOST_MARKERS = 5
LIST_SEPARATORS = (";", ",")


def doubt_of(column: TableColumn) -> str:
    """Return what the values of a column may be besides, as the end of a note; "" of nothing."""
    texts = column.present.unique()
    kinds = (_digits,) if column.written else (_digits, _clocks, _odd_numbers, _units, _lists)
    doubts = (kind(column, texts) for kind in kinds)
    return next((f"; perhaps {doubt}" for doubt in doubts if doubt), "")


def digit_formats(texts: pa.Array) -> list[str]:
    """Return the formats of dates or times of day that different texts of digits may have."""
    longest, formats = pc.max(pc.utf8_length(texts)).as_py(), []
    for form in [form for form, width in DIGIT_TIMES.items() if width == longest]:
        padded = pc.utf8_lpad(texts, longest, "0")
        seconds = seconds_in(padded, Timestamp("", format=form)).drop_null()
        if len(seconds) < (1 - MOST_ODD) * len(texts):
            continue
        years, hours = (part_of(seconds, part).to_pylist() for part in ("year", "hour"))
        is_many = len({*hours}) >= MANY_HOURS and len(hours) - hours.count(0) >= MANY_TIMES
        if {*years} <= {*YEARS} and (is_many or form != TIME_OF_DAY):
            formats.append(form)
    return formats


def _option(column: TableColumn, form: str) -> str:
    return f"--written {quote(f'{column.name}={form}')}"


def _digits(column: TableColumn, texts: pa.Array) -> str:
    if column.written and not column.is_whole:
        return ""
    formats = digit_formats(pc.replace_substring_regex(texts, POINT_ZERO, ""))
    if not formats:
        return ""
    width = DIGIT_TIMES[formats[0]]
    other = next((text for text in texts.to_pylist() if len(text) != width), "")
    padded = re.sub(POINT_ZERO, "", other).zfill(width)
    write = f"write {padded} for {other}, and " if other else ""
    what = "times of day" if formats == [TIME_OF_DAY] else "dates"
    options = " or ".join(_option(column, form) for form in formats)
    return f"{what}: to read them so, {write}give {options}"


def _clocks(column: TableColumn, texts: pa.Array) -> str:
    if not pc.all(pc.match_substring_regex(texts, CLOCK)).as_py():
        return ""
    formats = [form for form in DAY_TIMES if not seconds_in(texts, form).null_count]
    if not formats:
        return "durations: write them as numbers of one unit to use them"
    option = _option(column, formats[0].format)
    return f"times of day or durations: give {option} for times, write durations as numbers"


def _odd_numbers(column: TableColumn, texts: pa.Array) -> str:
    """Return a doubt about numbers among which a few texts are none."""
    odd = texts.filter(numbers_of(texts, Written()).is_null()).to_pylist()
    is_code = pc.any(pc.match_substring_regex(texts, CODE)).as_py()
    num_numbers = len(texts) - len(odd)
    if is_code or not odd or num_numbers < FEWEST_NUMBERS or len(odd) > MOST_UNLIKE * len(texts):
        return ""
    shown = first_of([*map(repr, odd)], MOST_MARKERS)
    number = call("Number", column.declared, missing=tuple(odd))
    declare = f", or, if they mean a missing value, declare {number}" * (len(odd) <= MOST_MARKERS)
    return f"numbers, but for {shown}: correct the file{declare}"


def _units(column: TableColumn, texts: pa.Array) -> str:
    """Return a doubt about the few units that nearly all values have behind a number."""
    units = pc.struct_field(pc.extract_regex(column.present, UNIT), "unit").drop_null()
    few = sorted(units.unique().to_pylist())
    is_code = any(text.isupper() or text in ORDINALS for text in few)
    if is_code or len(few) > MOST_UNITS or len(units) <= (1 - MOST_UNLIKE) * len(column.present):
        return ""
    return f"quantities in {', '.join(few)}: write them in one unit to use them"


def _lists(column: TableColumn, texts: pa.Array) -> str:
    """Return a doubt about texts with separators between few parts, in different numbers."""
    for separator in LIST_SEPARATORS:
        parts = pc.split_pattern(texts, separator)
        different = pc.utf8_trim_whitespace(pc.list_flatten(parts)).unique()
        if len(pc.list_value_length(parts).unique()) > 1 and 2 * len(different) <= len(texts):
            lists = call("Category", column.declared, separator=separator)
            return f"lists: to read them so, declare {lists}"
    return ""
