"""Source that `trainyard new` writes, and the texts of the data in it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

Part = str | float | Iterable[str] | None


class SourceText(str):
    """Text that is source; any other text is one of the data, which must not become source."""


def quoted(text: str) -> SourceText:
    """Return a text as a literal, which Python and YAML read alike."""
    return SourceText(printable(json.dumps(text, ensure_ascii=False)))


def comment(text: str) -> SourceText:
    """Return a text in one line, for a comment."""
    return SourceText(printable(" ".join(text.split())))


def printable(text: str) -> str:
    """Return a text with escapes for control characters, such as line ends and marks of order."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def literal(value: Any) -> SourceText:
    """Return a value as Python source; texts, lists and dicts of them are YAML, too."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list | tuple):
        items = ", ".join(map(literal, value))
        is_list = isinstance(value, list)
        return SourceText(f"[{items}]" if is_list else f"({items}{',' * (len(value) == 1)})")
    if isinstance(value, Mapping):
        pairs = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return SourceText(f"{{{', '.join(pairs)}}}")
    return SourceText(repr(value))


def call(function: str, *arguments: Any, **options: Any) -> SourceText:
    """Return a call with these values as Python source."""
    named = (f"{name}={literal(value)}" for name, value in options.items())
    return SourceText(f"{function}({', '.join([*map(literal, arguments), *named])})")


def fill(template: str, *parts: Part, **named: Part) -> SourceText:
    """Return a template, which is a constant, with its parts; parts of a list follow each other.

    A text that is no source is escaped as between the quotes of a literal or docstring.
    """
    shown = {name: _escaped(part) for name, part in named.items()}
    return SourceText(template.format(*map(_escaped, parts), **shown))


def _escaped(part: Part) -> str | float:
    match part:
        case None:
            return ""
        case SourceText() | float() | int():
            return part
        case str():
            return quoted(part)[1:-1]
    return "".join(str(_escaped(line)) for line in part)
