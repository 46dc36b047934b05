"""Values of examples, labels and predictions as short texts, for tables and reports."""

import math
from collections.abc import Iterable
from typing import Any

MAX_TEXT = 60


def shown_value(value: Any) -> str:
    """Return a value as text, cut to 60 characters; a list has commas between its items."""
    if isinstance(value, list):
        return cut(", ".join(map(shown_value, value[:MAX_TEXT])) or "none")
    return cut(f"{value:.6g}" if isinstance(value, float) else str(value))


def count_not_finite(value: Any) -> int:
    """Return the number of nulls, NaNs and infinities in a value of JSON."""
    if isinstance(value, dict | list):
        parts: Iterable[Any] = value.values() if isinstance(value, dict) else value
        return sum(map(count_not_finite, parts))
    return int(value is None or (isinstance(value, float) and not math.isfinite(value)))


def cut(text: str) -> str:
    """Return a text, cut to 60 characters with an ellipsis if it is longer."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
