"""Texts as Python source, as the files that `trainyard new` writes have them."""

import json
from collections.abc import Iterable


def quoted(text: str) -> str:
    """Return a text as Python source with double quotes."""
    return json.dumps(text, ensure_ascii=False)


def as_tuple(texts: Iterable[str]) -> str:
    """Return a tuple of texts as Python source."""
    shown = list(map(quoted, texts))
    return f"({', '.join(shown)}{',' * (len(shown) == 1)})"
