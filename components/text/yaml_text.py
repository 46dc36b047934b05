"""Parser of users' YAML: refuses aliases, and names the line of an error."""

from typing import Any

import yaml

# The C loader reads a package six times as fast, but not every PyYAML is built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH = 100  # the limit of Google's parsers, too


class YamlError(ValueError):
    """Invalid or refused YAML; the message names the line."""


def load_yaml(text: str) -> Any:
    """Parse a text with one document.

    Raises:
        YamlError: It is not YAML, has aliases, or has several documents.
    """
    documents = load_documents(text)
    if len(documents) > 1:
        raise YamlError("it has several documents (---); keep one")
    return documents[0] if documents else None


def load_with_lines(text: str) -> tuple[Any, dict[tuple[str, ...], int]]:
    """Parse a text with one document; return it, and the line of each key and item by its path.

    The key of an item is its index, as text.

    Raises:
        YamlError: It is not YAML, has aliases, has several documents, or has a key twice.
    """
    lines: dict[tuple[str, ...], int] = {}
    value = load_yaml(text)
    _find_lines(yaml.compose(text, Loader=_LOADER), (), lines)
    return value, lines


def _find_lines(node: Any, path: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> None:
    for number, item in enumerate(node.value if isinstance(node, yaml.SequenceNode) else ()):
        lines[(*path, str(number))] = item.start_mark.line + 1
        _find_lines(item, (*path, str(number)), lines)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name, line = (*path, str(key.value)), key.start_mark.line + 1
        if name in lines:
            raise YamlError(
                f"line {line}: {key.value} is given twice, first in line {lines[name]}; keep one"
            )
        lines[name] = line
        _find_lines(value, name, lines)


def load_documents(text: str) -> list[Any]:
    """Parse a text with any number of documents.

    Raises:
        YamlError: It is not YAML, or has aliases.
    """
    check_yaml(text)
    try:
        return list(yaml.load_all(text, Loader=_LOADER))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-99-99
        raise YamlError(explain(error, text)) from error


def check_yaml(text: str) -> None:
    """Refuse a text that is not YAML, is nested too deeply, or has aliases.

    Nine lines of nested aliases can expand to more values than fit into memory
    (https://en.wikipedia.org/wiki/Billion_laughs_attack).

    Raises:
        YamlError: Names the line.
    """
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.AliasEvent):
                raise YamlError(
                    f"line {line}: the alias *{event.anchor} is not allowed; write its value out"
                )
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise YamlError(f"line {line}: it is nested too deeply: over {MAX_DEPTH} levels")
    except yaml.YAMLError as error:
        raise YamlError(explain(error, text)) from error


def explain(error: Exception, text: str) -> str:
    """Return an error of the YAML library as one line."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).replace("\n", " ")
    if mark and text[mark.index : mark.index + 1] == "\t":
        problem = "a tab; indent with spaces"
    line = f", line {mark.line + 1}" if mark else ""
    return f"it is not YAML{line}: {problem}"
