"""Value of `--set KEY=VALUE`, read by the type of the setting."""

import re
import types
import typing
from typing import Any

from components.shared.text.yaml_text import NUMBER, load_yaml


def read_value(text: str, kind: Any = None) -> Any:
    """Return the value of a text for a setting of type `kind`, or of any type if it is None.

    Numbers are read as in Python. For a text setting the text is returned unchanged, unless it is
    quoted, a list or an object; an empty one always. Everything else is YAML.

    Raises:
        YamlError: it is not YAML, or has aliases.
    """
    kinds = _members(kind)
    if {int, float} & kinds and re.fullmatch(NUMBER, text):
        number = float(text)
        is_whole = re.fullmatch("[-+]?[0-9]+", text) or (float not in kinds and number.is_integer())
        return int(number if "e" in text.lower() or "." in text else text) if is_whole else number
    is_null = type(None) in kinds and text in ("null", "~")
    is_text = str in kinds and not is_null and not text.lstrip().startswith(("'", '"', "[", "{"))
    return text if is_text or not text.strip() else load_yaml(text)


def _members(kind: Any) -> set[Any]:
    """Return the types of a union, or the type itself."""
    is_union = isinstance(kind, types.UnionType)
    return set(typing.get_args(kind)) if is_union else {kind}
