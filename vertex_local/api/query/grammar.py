"""The grammar of filters, as far as Vertex AI documents it (https://google.aip.dev/160).

`state="X" AND (labels.run=a OR NOT display_name:"b*")`. As in AIP-160, OR binds closer than AND.
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
NOT = re.compile(r"NOT(?=[\s(])|-(?=[A-Za-z_(])")


@dataclass(frozen=True)
class Restriction:
    """One condition: a field as it was written, an operator, and the value."""

    field: str
    operator: str
    value: str


@dataclass(frozen=True)
class Not:
    """The opposite of a condition."""

    part: "Node"


@dataclass(frozen=True)
class Joined:
    """Conditions of which all (`AND`) or any (`OR`) must hold."""

    word: str
    parts: tuple["Node", ...]


Node = Restriction | Not | Joined


def parse(text: str) -> Node | None:
    """Return a filter's conditions; None for an empty filter.

    Raises:
        ApiError: INVALID_ARGUMENT, for what is not a filter.
    """
    if len(text) > MAX_CHARACTERS:
        raise invalid_argument(f"filter has {len(text)} characters; allowed are {MAX_CHARACTERS}.")
    return _Parser(text).whole() if text.strip() else None


class _Parser:
    """Recursive descent over a filter, from `_position` on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._num_conditions = 0

    def whole(self) -> Node:
        node = self._all()
        if self._position < len(self._text):
            raise self._wrong()
        return node

    def _all(self) -> Node:
        return self._joined("AND", lambda: self._joined("OR", self._term))

    def _joined(self, word: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self._take(re.compile(rf"{word}(?=[\s(])")):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _term(self) -> Node:
        if self._take(NOT):
            return Not(self._nested(self._term))
        if self._take(re.compile(r"\(")):
            node = self._nested(self._all)
            if not self._take(re.compile(r"\)")):
                raise self._wrong()
            return node
        match = self._take(RESTRICTION)
        self._num_conditions += 1
        if match is None or self._num_conditions > MAX_CONDITIONS:
            raise self._wrong()
        quoted = match["double"] if match["single"] is None else match["single"]
        value = match["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        return Restriction(match["field"], match["operator"], value)

    def _nested(self, part: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._wrong()
        node = part()
        self._depth -= 1
        return node

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern here and go past it and the white space that follows."""
        while self._text[self._position : self._position + 1].isspace():
            self._position += 1
        match = pattern.match(self._text, self._position)
        if match:
            self._position = match.end()
            while self._text[self._position : self._position + 1].isspace():
                self._position += 1
        return match

    def _wrong(self) -> ApiError:
        rest = self._text[self._position : self._position + 40]
        return invalid_argument(f'filter "{self._text}" is not understood at "{rest}"; {EXAMPLES}.')
