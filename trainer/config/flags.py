"""Command-line flags and environment variables of settings."""

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from trainer.config.settings import (
    check,
    describe_allowed,
    flag_name,
    kind_of,
    limits_of,
    split_list,
)
from trainer.errors import ConfigError


def add_flags(parser: argparse.ArgumentParser, config: type) -> None:
    """Add a flag for each setting.

    Those of each inherited dataclass are a group, and so are the advanced ones.
    """
    advanced = []
    for base in config.__mro__:
        if dataclasses.is_dataclass(base):
            title, _, text = (base.__doc__ or "").partition("\n\n")
            group: Any = parser
            if base is not config:
                group = parser.add_argument_group(title.rstrip("."), text.strip() or None)
            for field in dataclasses.fields(base):
                if field.name in base.__annotations__ and limits_of(field).has_flag:
                    if limits_of(field).is_advanced:
                        advanced.append(field)
                    else:
                        group.add_argument(flag_name(field.name), **_flag_options(field))
    group = parser.add_argument_group("advanced")
    for field in advanced:
        group.add_argument(flag_name(field.name), **_flag_options(field))


def read_environ(config: type, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of variables, an empty one unset; ConfigError names a wrong one."""
    values = {}
    for field in dataclasses.fields(config):
        variable = limits_of(field).variable
        text = environ.get(variable, "")
        if not text and field.default is dataclasses.MISSING:
            raise ConfigError(f"{variable} is not set; set it to the {limits_of(field).help}")
        value = text or field.default
        if text and kind_of(field) is int and text.isdecimal():
            value = int(text)
        check(field, value, name=variable)
        values[field.name] = value
    return values


def _flag_options(field: dataclasses.Field[Any]) -> dict[str, Any]:
    kind, limits = kind_of(field), limits_of(field)
    text = limits.help.replace("%", "%%")
    if kind is bool:
        return {"action": "store_true", "help": text}
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    else:
        default = field.default
    options: dict[str, Any] = {"default": default}
    if default is dataclasses.MISSING:
        options = {"required": True}
        text += " (required)"
    elif isinstance(default, Mapping) and default:
        shown = ",".join(f"{key}={value}" for key, value in default.items())
        text += f" (default: {shown})"
    elif default:
        text += f" (default: {default})"
    if limits.choices and kind is str:
        text += f"; one of {', '.join(limits.choices)}"
    names: dict[type, str] = {int: "N", float: "X"}
    metavar = limits.metavar or names.get(kind, field.name.split("_")[-1].upper())
    if limits.is_repeated:
        return {"action": "append", "default": [], "help": text, "metavar": metavar}
    return {**options, "help": text, "metavar": metavar, "type": _converter(field)}


def _converter(field: dataclasses.Field[Any]) -> Callable[[str], Any]:
    readers: dict[Any, Any] = {tuple: split_list, Mapping: _read_mapping}
    kind = readers.get(kind_of(field), kind_of(field))

    def convert(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            words = (
                " write NAME=NUMBER,…" if kind is _read_mapping else describe_allowed(field, text)
            )
            raise argparse.ArgumentTypeError(f"{text!r} is not allowed;{words}") from error

    return convert


def _read_mapping(text: str) -> dict[str, Any]:
    """Return the numbers of `train=0.8,eval=0.2` by name, or a JSON object."""
    if text.startswith("{"):
        return dict(json.loads(text))
    pairs = (item.split("=") for item in text.split(","))
    return {name.strip(): float(number) for name, number in pairs}
