"""Texts and lines of Python source, as the files that `trainyard new` writes have them."""

import ast
import json
import textwrap
from collections.abc import Iterable
from typing import Any

SHORT = 24  # an item up to it shares a line with others


def quoted(text: str) -> str:
    """Return a text as Python source with double quotes."""
    return json.dumps(text, ensure_ascii=False)


def as_tuple(texts: Iterable[str]) -> str:
    """Return a tuple of texts as Python source."""
    shown = list(map(quoted, texts))
    return f"({', '.join(shown)}{',' * (len(shown) == 1)})"


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
