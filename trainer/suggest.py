"""Did-you-mean suggestions for names that a user mistyped."""

import difflib
from collections.abc import Iterable


def did_you_mean(given: object, allowed: Iterable[str]) -> str:
    """Return ` did you mean 'workers'?` for the allowed name nearest to `given`, or ""."""
    if not isinstance(given, str):
        return ""
    names = {_normalize(name): name for name in allowed}
    close = difflib.get_close_matches(_normalize(given), names, n=1, cutoff=0.7)
    return f" did you mean {names[close[0]]!r}?" if close else ""


def _normalize(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
