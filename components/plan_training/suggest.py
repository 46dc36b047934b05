"""What somebody who wrote something else may have meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(given: object, allowed: Iterable[str]) -> str:
    """` did you mean 'workers'?`, or nothing."""
    if not isinstance(given, str):
        return ""
    plain = {_plain(name): name for name in allowed}
    close = difflib.get_close_matches(_plain(given), plain, n=1, cutoff=0.7)
    return f" did you mean {plain[close[0]]!r}?" if close else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
