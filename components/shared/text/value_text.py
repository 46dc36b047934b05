"""Values of examples, labels and predictions as short texts, for tables and reports."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

MAX_TEXT = 60
NUM_DIGITS = 6
LEAST_DECIMAL, LARGEST_DECIMAL = 1e-6, 1e15  # beyond, a power of ten is shorter
WITH_COMMAS = 10_000
PERCENT, MANY = 0.01, 0.9995
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float, *, digits: int = NUM_DIGITS) -> str:
    """Return a number as people write it: `0.00001`, `12.25`, `150,000`, `2.5·10⁻⁸`.

    Zeros at the end of decimals are left out.
    """
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}") + 0.0  # not -0
    if rounded and not LEAST_DECIMAL <= abs(rounded) < LARGEST_DECIMAL:
        factor, _, power = f"{rounded:e}".partition("e")
        return f"{float(factor):g}·10{str(int(power)).translate(SUPERSCRIPTS)}"
    comma = "," if abs(rounded) >= WITH_COMMAS else ""
    return f"{Decimal(str(rounded)):{comma}f}".rstrip("0").removesuffix(".")


def percent_text(share: float) -> str:
    """Return a share such as 34.3 %, those below 1 % with one digit; only all is 100 %."""
    if MANY <= share < 1:
        return ">99.9 %"
    return f"{number_text(100 * share, digits=3 if share >= PERCENT else 1)} %"


def time_text(seconds: float, *, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return seconds since 1970 as a date with its time, `2013-01-06 13:30`.

    Those before the year 1 or after 9999 stay a number, `1,000,000,000,000 s`.
    """
    try:
        moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{number_text(seconds)} s"
    return f"{moment:{form}}".removesuffix(" 00:00")


def moment_text(moment: str) -> str:
    """Return a timestamp of Vertex AI as `2026-11-27 04:35:38 UTC`; "" without one."""
    return f"{moment[:19].replace('T', ' ')} UTC" if moment else ""


def shown_value(value: Any) -> str:
    """Return a value as text, cut to 60 characters; a list has commas between its items."""
    if isinstance(value, list):
        return cut(", ".join(map(shown_value, value[:MAX_TEXT])) or "none")
    return cut(number_text(value) if isinstance(value, float) else str(value))


def count_not_finite(value: Any) -> int:
    """Return the number of nulls, NaNs and infinities in a value of JSON."""
    if isinstance(value, dict | list):
        parts: Iterable[Any] = value.values() if isinstance(value, dict) else value
        return sum(map(count_not_finite, parts))
    return int(value is None or (isinstance(value, float) and not math.isfinite(value)))


def cut(text: str) -> str:
    """Return a text, cut to 60 characters with an ellipsis if it is longer."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def first_of(texts: Sequence[str], most: int) -> str:
    """Return the first texts with commas between, and how many more there are."""
    shown = ", ".join(texts[:most])
    return f"{shown} and {len(texts) - most} more" if len(texts) > most else shown
