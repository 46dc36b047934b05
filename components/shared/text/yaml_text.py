"""Parser of users' YAML: refuses aliases, and names the line of an error.

It reads values as YAML 1.2 and `--set` do: 010, 1:30, on, 0x1F and 2026-01-01 are texts, 1e3 is a
number. YAML 1.1 makes 8, 90, true, 31 and a date of them, and a text of 1e3.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from components.shared.text.user_file import FileError, read_text_file
from trainer.errors import ConfigError, near_path

NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
MAX_BYTES = 1_000_000  # the names of ten thousand files
MAX_DEPTH = 100  # the limit of Google's parsers, too
# https://yaml.org/spec/1.2.2/#103-core-schema, but a number with leading zeros is a text.
_SCHEMA = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0|[1-9][0-9]*)",
    "float": rf"(?![-+]?[0-9]+$){NUMBER}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
# A sign beyond 16 bits in a JSON text, which YAML would read as two characters that are none.
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
# The C loader reads a package six times as fast, but not every PyYAML is built with it.
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]
    """Loader of `_SCHEMA`, in which all keys are texts, as in JSON."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def __init__(self, text: str):
        super().__init__(_PAIR.sub(lambda pair: json.loads(f'"{pair[0]}"'), text))

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep=deep)


for _name, _pattern in _SCHEMA.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), None
    )


class YamlError(ValueError):
    """Invalid or refused YAML; the message names the line."""


@dataclass(frozen=True)
class Position:
    """Place of a value: the line of its key, and its text as written if it is a plain scalar."""

    line: int
    text: str | None = None


Sources = dict[tuple[str, ...], Position]


def read_yaml_file(path: Path) -> tuple[Any, Sources]:
    """Return the content of a small file, as `load_with_sources`.

    Raises:
        YamlError: it is no regular file, is too large, or is not such a text.
        OSError: it cannot be read.
    """
    try:
        text = read_text_file(path, max_bytes=MAX_BYTES)
    except FileError as error:
        raise YamlError(str(error)) from error
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not
    return load_with_sources(text)


def read_mapping(path: Path, *, example: str) -> tuple[dict[str, Any], Sources]:
    """Return the keys and values of a file, as `read_yaml_file`; {} if it is empty.

    Raises:
        ConfigError: it cannot be read, or has something else.
    """
    try:
        values, sources = read_yaml_file(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}{near_path(path)}") from error
    except YamlError as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(values, dict | None):
        raise ConfigError(f"{path} must hold keys and values, such as `{example}`")
    return values or {}, sources


def load_yaml(text: str) -> Any:
    """Parse a text with one document.

    Raises:
        YamlError: It is not YAML, has aliases, or has several documents.
    """
    documents = load_documents(text)
    if len(documents) > 1:
        raise YamlError("it has several documents (---); keep one")
    return documents[0] if documents else None


def load_with_sources(text: str) -> tuple[Any, Sources]:
    """Parse a text with one document; return it, and the source of each value by its path.

    The key of an item is its index, as text.

    Raises:
        YamlError: It is not YAML, has aliases, has several documents, or has a key twice.
    """
    sources: Sources = {}
    value = load_yaml(text)
    _find_sources(yaml.compose(text, Loader=_Loader), (), sources)
    return value, sources


def _find_sources(node: Any, path: tuple[str, ...], sources: Sources) -> None:
    for number, item in enumerate(node.value if isinstance(node, yaml.SequenceNode) else ()):
        sources[(*path, str(number))] = _source(item, item)
        _find_sources(item, (*path, str(number)), sources)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name, source = (*path, str(key.value)), _source(key, value)
        if name in sources:
            raise YamlError(
                f"line {source.line}: {key.value} is given twice, first in line"
                f" {sources[name].line}; keep one"
            )
        sources[name] = source
        _find_sources(value, name, sources)


def _source(key: Any, value: Any) -> Position:
    is_plain = isinstance(value, yaml.ScalarNode) and not value.style
    return Position(key.start_mark.line + 1, value.value if is_plain else None)


def value_text(value: Any, source: Position | None = None) -> str:
    """Return a value as --set takes it: a number as it is written, `1.10`."""
    if isinstance(value, str):
        return value
    return source.text if source and source.text is not None else json.dumps(value)


def load_documents(text: str) -> list[Any]:
    """Parse a text with any number of documents.

    Raises:
        YamlError: It is not YAML, or has aliases.
    """
    check_yaml(text)
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: over 4,300 digits
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
        for event in yaml.parse(text, Loader=_Loader):
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
