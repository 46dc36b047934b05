"""Other readings of values, in words: what they may be besides, and what to write then."""

import re
from shlex import quote

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.tables.values.times import part_of
from components.prepare_examples.tables.values.written import NUMBER_PATTERN
from pipelines.projects.literals import call
from pipelines.projects.starter.column import FEWEST_NUMBERS, MOST_ODD, POINT_ZERO, TableColumn
from pipelines.projects.starter.forms import (
    CLOCKS,
    CODE,
    LIKE_TIME,
    MAX_TRIED,
    seconds_in,
)
from trainer.workloads.declarations.features import Timestamp

# The formats of whole numbers that are dates or times of day, with the number of their digits.
TIME_OF_DAY = "%H%M"
DIGIT_TIMES = {8: ("%Y%m%d", "%m%d%Y", "%d%m%Y"), 6: ("%Y%m",), 4: (TIME_OF_DAY,)}
NEARLY = 0.9  # of the texts of a column
YEARS = range(1900, 2200)
MANY_HOURS, OF_HOUR = 6, 8  # times of day, and of them in an hour on average, which are no chance
CLOCK = r"^(\d+ days?,? \+?)?-?\d{1,3}(:[0-5]\d){1,2}(\.\d+)?( ?[AaPp][Mm])?$"
DAY_TIMES = [Timestamp("", format=clock.strip()) for clock in CLOCKS if clock.startswith(" %")]
UNIT = r"^[+-]?[0-9][0-9.,\' ]*(?P<unit>[^0-9.,:/\'\s]\S*)$"
ORDINALS = {"st", "nd", "rd", "th"}
MOST_UNITS = 5  # of a column
MOST_SHOWN = 5
LIST_SEPARATORS = (";", ",")


def doubt_of(column: TableColumn) -> str:
    """Return what the values of a column may be besides, as the end of a note; "" of nothing."""
    texts = column.present.unique()
    kinds = (
        (_digits,) if column.written else (_digits, _clocks, _times, _odd_numbers, _units, _lists)
    )
    doubts = (kind(column, texts) for kind in kinds)
    return next((f"; perhaps {doubt}" for doubt in doubts if doubt), "")


def digit_formats(texts: pa.Array) -> list[str]:
    """Return the formats of dates or times of day that different texts of digits may have."""
    width, formats = pc.max(pc.utf8_length(texts)).as_py(), []
    for form in DIGIT_TIMES.get(width, ()):
        padded = pc.utf8_lpad(texts, width, "0")
        seconds = seconds_in(padded, Timestamp("", format=form)).drop_null()
        years, hours = (part_of(seconds, part).to_pylist() for part in ("year", "hour"))
        is_many = MANY_HOURS <= len({*hours}) <= len(hours) / OF_HOUR
        is_read = len(seconds) >= (1 - MOST_ODD) * len(texts) and {*years} <= {*YEARS}
        if is_read and (is_many or form != TIME_OF_DAY):
            formats.append(form)
    return formats


def _option(column: TableColumn, form: str) -> str:
    return f"--written {quote(f'{column.name}={form}')}"


def _digits(column: TableColumn, texts: pa.Array) -> str:
    texts = pc.replace_substring_regex(texts, POINT_ZERO, "")
    if not (formats := digit_formats(texts)):
        return ""
    width = pc.max(pc.utf8_length(texts)).as_py()
    what = "times of day" if formats == [TIME_OF_DAY] else "dates"
    options = " or ".join(_option(column, form) for form in formats)
    return f"{what}: with {width} digits, as {texts[0].as_py().zfill(width)}, {options} reads them"


def _clocks(column: TableColumn, texts: pa.Array) -> str:
    if pc.mean(pc.match_substring_regex(texts, CLOCK)).as_py() < NEARLY:
        return ""
    formats = [
        form.format
        for form in DAY_TIMES
        if seconds_in(texts, form).null_count <= MOST_ODD * len(texts)
    ]
    if not formats:
        return "durations: write them as numbers of one unit to use them"
    option = _option(column, formats[0])
    return f"times of day or durations: give {option} for times, write durations as numbers"


def _odd_numbers(column: TableColumn, texts: pa.Array) -> str:
    """Return a doubt about numbers among which a few texts are none."""
    odd = texts.filter(pc.invert(pc.match_substring_regex(texts, NUMBER_PATTERN))).to_pylist()
    is_few = 0 < len(odd) <= (1 - NEARLY) * len(texts) and len(texts) >= FEWEST_NUMBERS
    if not is_few or pc.any(pc.match_substring_regex(texts, CODE)).as_py():
        return ""
    number = call("Number", column.declared, missing=tuple(odd[:MOST_SHOWN]))
    what = f"numbers, but for {len(odd)}, as {odd[0]!r}"
    return f"{what}: correct the file, or, if they mean missing, declare {number}"


def _times(column: TableColumn, texts: pa.Array) -> str:
    """Return a doubt about texts of which nearly all look like times."""
    like = [text for text in texts[:MAX_TRIED].to_pylist() if re.search(LIKE_TIME, text)]
    if len(like) <= NEARLY * len(texts[:MAX_TRIED]):
        return ""
    option = _option(column, "FORMAT")
    return f"times, as {like[0]!r}, but no format reads all: write them in one, or give {option}"


def _units(column: TableColumn, texts: pa.Array) -> str:
    """Return a doubt about the few units that nearly all values have behind a number."""
    units = pc.struct_field(pc.extract_regex(column.present, UNIT), "unit").drop_null()
    few = sorted(units.unique().to_pylist())
    is_code = any(text.isupper() or text in ORDINALS for text in few)
    if is_code or len(few) > MOST_UNITS or len(units) <= NEARLY * len(column.present):
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
