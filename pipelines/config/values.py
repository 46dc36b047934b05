"""Value of `--set KEY=VALUE`, read by the type of the setting."""

import re
import types
import typing
from typing import Any

import yaml

from components.text.yaml_text import YamlError, check_yaml, explain

NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number; YAML 1.1 requires a dot, as in 1.e-3."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(rf"{NUMBER}$"), list("-+.0123456789")
)


def read_value(text: str, kind: Any = None) -> Any:
    """Return the value of a text for a setting of type `kind`, or of any type if it is None.

    Numbers are read as in Python. For a text setting the text is returned unchanged, unless it is
    quoted or a list. Everything else is YAML.

    Raises:
        YamlError: it is not YAML, or has aliases.
    """
    kinds = _members(kind)
    if {int, float} & kinds and re.fullmatch(NUMBER, text):
        number = float(text)
        is_whole = re.fullmatch("[-+]?[0-9]+", text) or (float not in kinds and number.is_integer())
        return int(number if "e" in text.lower() or "." in text else text) if is_whole else number
    check_yaml(text)
    try:
        value = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-99-99
        raise YamlError(explain(error, text)) from error
    is_text = str in kinds and not isinstance(value, str | list | dict)
    return text if is_text and not (value is None and type(None) in kinds) else value


def _members(kind: Any) -> set[Any]:
    """Return the types of a union, or the type itself."""
    is_union = isinstance(kind, types.UnionType)
    return set(typing.get_args(kind)) if is_union else {kind}
