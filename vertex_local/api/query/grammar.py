"""Parser of filters, for the part of https://google.aip.dev/160 that Vertex AI documents.

`state="X" AND (labels.run=a OR NOT display_name:"b*")`. As in AIP-160, OR has precedence over AND,
and a blank joins conditions as AND does, with a precedence between them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from vertex_local.errors import ApiError, invalid_argument

MAX_CHARACTERS = 10_000
MAX_DEPTH = 50
MAX_CONDITIONS = 200  # SQLite nests at most 1000 deep
EXAMPLES = (
    'write conditions as display_name="x", state!="X", labels.key=value, labels.key:* or '
    'create_time>"2026-01-31T00:00:00Z", joined by AND, OR, NOT and parentheses'
)
RESTRICTION = re.compile(
    r"""(?P<field>[A-Za-z_]\w*(?:\.(?:"[^"]*"|[\w-]+))*)
        \s*(?P<operator>!=|<=|>=|=|<|>|:)
        \s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s()"']+))""",
    re.VERBOSE,
)
BLANK = re.compile(r"(?<=\s)(?!(AND|OR)[\s(])(?=[-\w(])")
NOT = re.compile(r"NOT(?=[\s(])|-(?=[A-Za-z_(])")


@dataclass(frozen=True)
class Restriction:
    """Comparison of a field with a value; the field is as in the filter."""

    field: str
    operator: str
    value: str


@dataclass(frozen=True)
class Not:
    """Negation of a condition."""

    node: "Node"


@dataclass(frozen=True)
class Joined:
    """Conditions joined by `AND` or `OR`."""

    operator: str
    nodes: tuple["Node", ...]


Node = Restriction | Not | Joined


def parse(text: str) -> Node | None:
    """Return a filter's syntax tree; None for an empty filter.

    Raises:
        ApiError: INVALID_ARGUMENT, with the position of the error.
    """
    if len(text) > MAX_CHARACTERS:
        raise invalid_argument(
            f"filter has {len(text)} characters; the maximum is {MAX_CHARACTERS}."
        )
    return _Parser(text).parse() if text.strip() else None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._num_conditions = 0

    def parse(self) -> Node:
        node = self._all()
        if self._position < len(self._text):
            raise self._error()
        return node

    def _all(self) -> Node:
        return self._joined("AND", lambda: self._joined("", lambda: self._joined("OR", self._term)))

    def _joined(self, operator: str, parse_one: Callable[[], Node]) -> Node:
        nodes = [parse_one()]
        while self._take(re.compile(rf"{operator}(?=[\s(])") if operator else BLANK):
            nodes.append(parse_one())
        return nodes[0] if len(nodes) == 1 else Joined(operator or "AND", tuple(nodes))

    def _term(self) -> Node:
        if self._take(NOT):
            return Not(self._nested(self._term))
        if self._take(re.compile(r"\(")):
            node = self._nested(self._all)
            if not self._take(re.compile(r"\)")):
                raise self._error()
            return node
        match = self._take(RESTRICTION)
        self._num_conditions += 1
        if match is None or self._num_conditions > MAX_CONDITIONS:
            raise self._error()
        quoted = match["double"] if match["single"] is None else match["single"]
        value = match["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        return Restriction(match["field"], match["operator"], value)

    def _nested(self, parse_one: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error()
        node = parse_one()
        self._depth -= 1
        return node

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern at the current position and skip it, with white space around it."""
        while self._text[self._position : self._position + 1].isspace():
            self._position += 1
        match = pattern.match(self._text, self._position)
        if match:
            self._position = match.end()
            while self._text[self._position : self._position + 1].isspace():
                self._position += 1
        return match

    def _error(self) -> ApiError:
        rest = self._text[self._position : self._position + 40]
        return invalid_argument(f'filter "{self._text}" is not valid at "{rest}"; {EXAMPLES}.')
