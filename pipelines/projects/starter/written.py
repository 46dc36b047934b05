"""Columns of texts: which are numbers, in which form, and which texts among them are none."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.tables.values.written import (
    NUMBER_PATTERN,
    fit_float32,
    plain_numbers,
    plain_texts,
)
from trainer.workloads.declarations.written import NEGATIVE, Written

# Texts that mean a missing value wherever they occur, and those that do so among numbers.
EXCEL = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")
MISSING = ("?", "\\N", *EXCEL, "N/A", "NULL", "null", "NaN", "nan")
MISSING_NUMBERS = (*MISSING, "NA", "n/a", "k.A.", "None", "none", "-", "--", ".", "unknown")
FEWEST_NUMBERS = 20  # distinct ones, among which another text is a missing value
MOST_ODD = 0.01  # of the values: texts that occur once among numbers, which are mistakes
SIGNS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", " "), (".", "'"))
CURRENCIES = ("USD", "EUR", "GBP", "CHF", "JPY", "CNY", "INR", "Rs", "Rs.", "US$", "kr", "zł")
# A number as a program writes it, without a sign around its digits.
UNSIGNED = re.compile(r"[-+]?\d+(?:\.\d+)?")
POINT_ZERO = r"\.0*$"  # of whole numbers
GROUPED = re.compile(r",\d{3}[,.]")  # in 1,234,567 and 1,234.50: no decimal comma
UNIT = re.compile(r"[°µ²³/\w]{1,8}")
CODE = r"^0[0-9]+$"
MAX_TRIED = 2_000  # distinct values whose signs are looked at


@dataclass(frozen=True)
class Reading:
    """Texts of a column, and how they are read.

    Attributes:
        values: the texts; null for a missing value, and for one of `odd`.
        form: of the numbers; None if the values are texts, or codes such as 007.
        markers: the numbers of values by the text that means a missing one.
        odd: texts that occur once among others, which are mistakes, with their positions.
        mistake: why they are, in words.
        num_blank: the number of values with blanks around them.
        large: the mistakes that are numbers, too large for a float32, with their numbers of rows.
    """

    values: pa.Array
    form: Written | None = None
    markers: dict[str, int] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)
    num_blank: int = 0
    mistake: str = "is not a number"
    large: dict[str, int] = field(default_factory=dict)

    def without(self, texts: Sequence[str], mistake: str) -> "Reading":
        """Return the reading with further mistakes, each with its position."""
        positions = {text: int(pc.index(self.values, text).as_py()) for text in texts}
        kept = _without(self.values, texts)
        return replace(self, values=kept, odd={**self.odd, **positions}, mistake=mistake)


def read_texts(texts: pa.Array, *, prefers_comma: bool = False, is_german: bool = False) -> Reading:
    """Return a column as it is read.

    Args:
        texts: the column.
        prefers_comma: in 1,234 it is rather decimal, as in files with semicolons.
        is_german: the file has decimal commas elsewhere.
    """
    plain = plain_texts(texts)
    num_blank = pc.sum(pc.not_equal(pc.utf8_trim_whitespace(texts), texts)).as_py() or 0
    entries = plain.drop_null().value_counts().to_pylist()
    counts = {entry["values"]: int(entry["counts"]) for entry in entries}
    has_points, has_commas = (any(sign in text for text in counts) for sign in ".,")
    kinds = [(",", ".")] if is_german and has_points else []
    may_be_decimal = has_commas and not any(map(GROUPED.search, counts))
    kinds += [(",", "")] if may_be_decimal and (is_german or prefers_comma) else []
    kinds += SIGNS
    units = _signs(list(counts)[:MAX_TRIED])
    forms = (
        Written(decimal=a, thousands=b, signs=units)
        for a, b in kinds
        if not (b and any(re.match(rf"\D*0{re.escape(b)}", text) for text in counts))  # 0,250
    )
    for form in forms if counts else ():
        split = _split(counts, form)
        if split is not None:
            markers, mistakes = split
            known = {text: counts[text] for text in markers}
            large = {text: counts[text] for text in _too_large(mistakes, form)}
            kept = _without(plain, markers)
            reading = Reading(kept, form, known, {}, num_blank, large=large)
            mistake = "is too large for a float32" if large else reading.mistake
            return reading.without(mistakes, mistake)
    known = {text: counts[text] for text in MISSING if text in counts}
    return Reading(_without(plain, list(known)), None, known, {}, num_blank)


def _split(counts: dict[str, int], form: Written) -> tuple[list[str], tuple[str, ...]] | None:
    """Return the markers and the mistakes among numbers; None if the texts are no numbers.

    A text that occurs several times may mean a missing value, one that occurs once is a mistake.
    So are all numbers that are too large, unless a single one occurs several times.
    """
    texts = pa.array(counts, pa.string())
    digits = plain_numbers(texts, form)
    is_written = pc.match_substring_regex(digits, NUMBER_PATTERN).fill_null(False)
    read = pc.if_else(is_written, digits, pa.scalar(None, pa.string())).cast(pa.float64())
    is_number = pa.array(fit_float32(read.to_numpy(zero_copy_only=False)))
    numbers = texts.filter(is_number)
    texts_left = texts.filter(pc.invert(is_number)).to_pylist()
    if not len(numbers) or pc.any(pc.match_substring_regex(numbers, CODE)).as_py():
        return None
    known = [text for text in MISSING_NUMBERS if text in texts_left]
    odd = [text for text in texts_left if text not in MISSING_NUMBERS]
    large = _too_large(odd, form)
    repeated = [text for text in odd if counts[text] > 1]
    if len(repeated) > 1:
        repeated = [text for text in repeated if text not in large]
    mistakes = tuple(text for text in odd if text not in repeated)
    if len(repeated) > 1 or (repeated and len(numbers) < FEWEST_NUMBERS):
        return None
    num_slips = len([text for text in mistakes if text not in large])
    if num_slips > max(1, MOST_ODD * sum(counts.values())) or len(mistakes) >= len(numbers):
        return None
    return [*known, *repeated], mistakes


def _too_large(texts: Sequence[str], form: Written) -> list[str]:
    """Return the texts that are numbers, of those that are no number of float32."""
    return [text for text in texts if form.number_of(text) is not None]


def _without(values: pa.Array, texts: Sequence[str]) -> pa.Array:
    is_text = pc.is_in(values, pa.array(texts, pa.string()))
    return pc.if_else(is_text, pa.scalar(None, pa.string()), values)


def _signs(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the currency, percent sign or unit that texts have around their digits."""
    texts = [text for text in texts if re.search(r"\d", text)]
    signed = [text for text in texts if not UNSIGNED.fullmatch(text)]
    heads = Counter(re.sub(r"\d.*", "", text, flags=re.S).strip(" +-.,(") for text in signed)
    tails = Counter(re.sub(r".*\d", "", text, flags=re.S).strip(" .,)") for text in signed)
    ends = [_most(heads), _most(tails)]
    signs = [end for end in ends if _is_currency(end) or end in ("%", "‰")]
    unit = ends[1]
    is_common = tails[unit] >= len(texts) - max(1, MOST_ODD * len(texts))
    if unit and unit not in signs and is_common and len(texts) > 1 and UNIT.fullmatch(unit):
        signs.append(unit)
    for sign, pattern in NEGATIVE.items():
        if any(re.match(pattern, text) for text in signed):
            signs.append(sign)
    return tuple(dict.fromkeys(signs))


def _most(counts: Counter[str]) -> str:
    return max(filter(None, counts), key=lambda text: counts[text], default="")


def _is_currency(text: str) -> bool:
    return text in CURRENCIES or (len(text) == 1 and unicodedata.category(text) == "Sc")


def alike(values: Sequence[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Return the groups of values that differ only by case, or a point and zeros at the end."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for value, count in values:
        form = re.sub(POINT_ZERO, "", value.casefold().rstrip(". "))
        groups.setdefault(form, []).append((value, count))
    return [group for group in groups.values() if len(group) > 1]
