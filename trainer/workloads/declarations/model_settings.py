"""Settings of a user's model: the keyword arguments of the function that builds it."""

import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainer.errors import did_you_mean

# Keyword arguments of a model that are not settings: they are given by the workload.
GIVEN = ("labels", "facts")

_NONE = type(None)
_WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    tuple: "whole numbers, such as 64,32",
}


@dataclass(frozen=True, kw_only=True)
class ModelSetting:
    """A setting of a model: its type (int, float, bool, str, or tuple of int) and default."""

    name: str
    kind: type
    default: Any

    def parse(self, value: Any) -> Any:
        """Return the value of a setting given as text, or typed as in JSON; else ValueError."""
        if value is None and self.default is None:
            return None
        parsed = _parse_text(self.kind, value) if isinstance(value, str) else value
        if self.kind is tuple and isinstance(parsed, list | tuple | int):
            parsed = tuple(parsed) if isinstance(parsed, list | tuple) else (parsed,)
        if self.kind is float and isinstance(parsed, int) and not isinstance(parsed, bool):
            parsed = float(parsed)
        if not _is_of_kind(self.kind, parsed):
            raise ValueError(f"model.{self.name} is {value!r}; it must be {_WORDS[self.kind]}")
        return parsed

    def __str__(self) -> str:
        return f"{self.name} ({_WORDS[self.kind]}, default {as_text(self.default)})"


def settings_of(function: Callable[..., Any]) -> dict[str, ModelSetting]:
    """Return the settings of a function that builds a model, by name.

    They are its arguments after the first one whose annotation, or else default, is one of int,
    float, bool, str and tuple[int, …].

    Raises:
        ValueError: an argument that is not a setting has no default.
    """
    hints = _type_hints(function)
    settings = {}
    for argument in list(inspect.signature(function).parameters.values())[1:]:
        if argument.name in GIVEN or argument.kind in (
            argument.VAR_POSITIONAL,
            argument.VAR_KEYWORD,
        ):
            continue
        if argument.default is argument.empty:
            raise ValueError(
                f"the argument {argument.name!r} of {getattr(function, '__name__', function)} needs"
                f" a default, such as {argument.name}=64"
            )
        kind = _kind(hints.get(argument.name), argument.default)
        if kind is not None:
            settings[argument.name] = ModelSetting(
                name=argument.name, kind=kind, default=argument.default
            )
    return settings


def given_arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the GIVEN arguments that a function takes."""
    arguments = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in arguments}


def parse_settings(
    settings: Mapping[str, ModelSetting], values: Mapping[str, Any], *, workload: str
) -> dict[str, Any]:
    """Return the values that differ from the defaults; ValueError begins with `model.NAME`."""
    parsed = {}
    for name, value in values.items():
        if name not in settings:
            has = "; ".join(map(str, settings.values()))
            hint = did_you_mean(name, settings)
            raise ValueError(
                f"model.{name}: the model of {workload} has no such setting;{hint}"
                f" {f'it has {has}' if has else 'it has none'}"
            )
        parsed[name] = settings[name].parse(value)
    return {name: value for name, value in parsed.items() if value != settings[name].default}


def as_text(value: Any) -> str:
    """Return a value as on the command line: 64,32 for (64, 32)."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(getattr(function, "func", function))
    except (NameError, TypeError):
        return {}


def _kind(hint: Any, default: Any) -> type | None:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(kind for kind in typing.get_args(hint) if kind is not _NONE)
    origin = typing.get_origin(hint) or hint
    if origin in (list, tuple, typing.Sequence) or origin is typing.get_origin(typing.Sequence):
        return tuple
    if origin in _WORDS:
        return origin
    if hint is not None:
        return None
    if isinstance(default, list | tuple):
        return tuple if all(isinstance(item, int) for item in default) else None
    return type(default) if type(default) in _WORDS else None


def _is_of_kind(kind: type, value: Any) -> bool:
    if kind is tuple:
        return isinstance(value, tuple) and all(_is_of_kind(int, item) for item in value)
    if kind is float:
        return isinstance(value, float) and math.isfinite(value)
    return type(value) is kind


def _parse_text(kind: type, text: str) -> Any:
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        if kind is tuple:
            return tuple(int(number) for number in text.split(",") if number.strip())
        return kind(text)
    except ValueError:
        return text
