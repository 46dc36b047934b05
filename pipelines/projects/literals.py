"""Source that `trainyard new` writes, and the texts of the data in it."""

import ast
import json
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

Part = str | float | Iterable[str] | None
SHORT = 24  # an item up to it shares a line with others


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


def wrapped(line: str, width: int) -> str:
    """Return an expression or statement, broken if it is longer than a width."""
    if len(line) <= width or "\n" in line:
        return line
    data = line.encode()  # ast counts bytes
    try:
        nodes = list(ast.walk(ast.parse(line)))
    except SyntaxError:  # an item of a dict
        return line
    lists = [spans for node in nodes if len(spans := _items(node)) > 1]
    places = max(lists, key=lambda places: places[-1][1] - places[0][0], default=[])
    if not places:
        return line
    items = [data[start:end].decode() for start, end in places]
    if all(len(item) <= SHORT for item in items):
        joined = " ".join(f"{item},".replace(" ", "\0") for item in items)
        filled = textwrap.wrap(joined, width - 4, break_long_words=False, break_on_hyphens=False)
        shown = "\n".join(filled).replace("\0", " ")
    else:
        shown = "\n".join(f"{wrapped(item, width - 4)}," for item in items)
    head, tail = data[: places[0][0]].decode(), data[places[-1][1] :].decode()
    return f"{head}\n{textwrap.indent(shown, '    ')}\n{tail.lstrip(', ')}"


def _items(node: ast.AST) -> list[tuple[int, int]]:
    pairs: list[tuple[Any, Any]] = []
    match node:
        case ast.Call(args=args, keywords=keywords):
            pairs = [(item, item) for item in (*args, *keywords)]
        case ast.List(elts=items):
            pairs = [(item, item) for item in items]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = [*zip(keys, values, strict=True)]
    return [(first.col_offset, last.end_col_offset) for first, last in pairs]
