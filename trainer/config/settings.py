"""Settings as fields of a dataclass: what each allows, and its flag on a command line."""

import argparse
import dataclasses
import difflib
import types
import typing
from dataclasses import field
from typing import Any


class ConfigError(ValueError):
    """A setting is wrong; the message names the flag, the value and what is allowed."""


def setting(text: str, **options: Any) -> Any:
    """Returns a field with its help; options are default, choices, at_least, above and below."""
    default = options.pop("default", dataclasses.MISSING)
    return field(default=default, metadata={"help": text, **options})


def add_flags(parser: argparse.ArgumentParser, config: type) -> None:
    """Adds a flag for every field of a dataclass; inherited ones are groups of their own."""
    for kind in config.__mro__:
        if dataclasses.is_dataclass(kind):
            title = (kind.__doc__ or "").lower().rstrip(".")
            place = parser if kind is config else parser.add_argument_group(title)
            for one in dataclasses.fields(kind):
                if one.name in kind.__annotations__:
                    place.add_argument(_flag(one), **_options(one))


def check(setting: dataclasses.Field[Any], value: Any) -> None:
    """Raises ConfigError when a field does not allow a value."""
    if value is None and setting.default is None:
        return
    limits = setting.metadata
    is_kind = isinstance(value, (int, float) if _kind(setting) is float else _kind(setting))
    if is_kind and isinstance(value, bool) and _kind(setting) is not bool:
        is_kind = False
    is_allowed = (
        is_kind
        and ("choices" not in limits or value in limits["choices"])
        and ("at_least" not in limits or limits["at_least"] <= value < float("inf"))
        and ("below" not in limits or value < limits["below"])
        and ("above" not in limits or limits["above"] < value < float("inf"))
        and (value != "" or setting.default == "")
    )
    if not is_allowed:
        near = difflib.get_close_matches(str(value), limits.get("choices", ()), n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        allowed = _allowed(setting)
        raise ConfigError(f"{_flag(setting)}: {value!r} is not allowed; {allowed}{meant}")


def _flag(setting: dataclasses.Field[Any]) -> str:
    return "--" + setting.name.replace("_", "-")


def _kind(setting: dataclasses.Field[Any]) -> type:
    """Returns the field's type; that of `int | None` is int."""
    hint: Any = setting.type
    if isinstance(hint, types.UnionType):
        return next(kind for kind in typing.get_args(hint) if kind is not type(None))
    return typing.cast(type, hint)


def _options(setting: dataclasses.Field[Any]) -> dict[str, Any]:
    text = setting.metadata["help"]
    if _kind(setting) is bool:
        return {"action": "store_true", "help": text}
    if setting.default is dataclasses.MISSING:
        shown, options = f"{text} (required)", {"required": True}
    else:
        shown = f"{text} (default: {setting.default})" if setting.default else text
        options = {"default": setting.default}
    if "choices" in setting.metadata:
        shown += f"; one of {', '.join(setting.metadata['choices'])}"
    metavar = {int: "N", float: "X", str: setting.name.split("_")[-1].upper()}[_kind(setting)]
    return {**options, "help": shown, "metavar": metavar, "type": _converter(setting)}


def _converter(setting: dataclasses.Field[Any]) -> Any:
    kind = _kind(setting)

    def convert(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            message = f"{text!r} is not allowed; {_allowed(setting)}"
            raise argparse.ArgumentTypeError(message) from error

    return convert


def _allowed(setting: dataclasses.Field[Any]) -> str:
    limits = setting.metadata
    if "choices" in limits:
        return f"use one of: {', '.join(limits['choices'])}"
    if "at_least" in limits:
        number = "whole number" if _kind(setting) is int else "number"
        below = f" and below {limits['below']}" if "below" in limits else ""
        return f"use a {number} of at least {limits['at_least']}{below}"
    if "above" in limits:
        return f"use a number above {limits['above']}"
    return "give a value"
