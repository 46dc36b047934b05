"""Numbers as text in pages."""

import math
from typing import Any

from components.shared.text.value_text import PERCENT, number_text, percent_text

_TINY, NUM_DIGITS = 1e-3, 4


def percent(share: Any) -> str:
    """Return a share in percent; `n/a` for null.

    A zero at the end is kept, so shares of one column can be compared.
    """
    if not isinstance(share, int | float) or not math.isfinite(share):
        return "n/a"
    text = percent_text(share)
    return f"{100 * share:.1f} %" if PERCENT <= share <= 1 and text[0] != ">" else text


def number(value: Any) -> str:
    """Return a measured number with four digits that matter, `n/a` for null, other values as text.

    Zeros at the end are kept, so numbers of one column can be compared.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0 and abs(value) < _TINY:
        return number_text(value, digits=2)
    num_whole = sum(abs(value) >= power for power in (1, 10, 100, 1000))
    return f"{value:,.{NUM_DIGITS - num_whole}f}"


def measured(value: Any) -> str:
    """Return a metric, `not defined` for null."""
    return "not defined" if value is None else number(value)


def signed(value: Any) -> str:
    """Return a difference with its sign."""
    return f"+{number(value)}" if isinstance(value, int | float) and value > 0 else number(value)
