"""Settings: each is declared once, as a field of a dataclass with its help, limits and default.

They are checked here; flags.py makes command-line flags and environment variables of them.
"""

import collections.abc
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from trainer.errors import ConfigError, did_you_mean

Config = TypeVar("Config")

_NONE = type(None)
SEE_SETTINGS = "`trainyard settings` lists them"
MOST = 10**9  # of a number without a limit of its own
MOST_SECONDS = 31 * 24 * 3600
# Line breaks, other controls, and bytes that are not UTF-8.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a setting besides its type, and its form on the command line.

    Attributes:
        choices: allowed texts, or allowed keys of a mapping.
        at_least, at_most, above, below: limits of a number, or of each number of a mapping. Each
            is from -MOST to MOST if there are no closer ones.
        pattern: regular expression of the whole text; `form` has it in words.
        has_flag: whether the setting has a command-line flag of its own.
        is_advanced: whether few users need it: help lists it last.
        metavar: placeholder of the value in the help.
        is_repeated: whether the flag of a list is given once for each element.
        variable: environment variable that holds the setting.
        is_secret: whether messages leave out the value.
    """

    help: str
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    pattern: str = ""
    form: str = ""
    has_flag: bool = True
    is_advanced: bool = False
    metavar: str = ""
    is_repeated: bool = False
    variable: str = ""
    is_secret: bool = False

    def allow_number(self, number: float) -> bool:
        """Return whether a number is within the limits; NaN never is."""
        return (
            (self.at_least is None or number >= self.at_least)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
            and -MOST <= number <= (MOST if self.at_most is None else self.at_most)
        )

    def describe_numbers(self) -> str:
        """Return the limits of a number in words: ` of at least 0 and below 1`."""
        most = MOST if self.at_most is None and self.below is None else self.at_most
        if self.at_least is not None and most is not None:
            return f" from {self.at_least} to {most}"
        words = {
            "of at least": self.at_least,
            "above": self.above,
            "below": self.below,
            "at most": most,
        }
        limits = [f"{word} {limit}" for word, limit in words.items() if limit is not None]
        return f" {' and '.join(limits)}" if limits else ""


def setting(
    help_: str,
    *,
    default: Any = dataclasses.MISSING,
    factory: Any = dataclasses.MISSING,
    **limits: Any,
) -> Any:
    """Return a field of a dataclass with its help; `limits` are the attributes of Limits."""
    metadata = {"limits": Limits(help=help_, **limits)}
    return dataclasses.field(default=default, default_factory=factory, metadata=metadata)


def same_setting(config: type, name: str) -> Any:
    """Return a field declared like the field of another dataclass."""
    field = find_setting(config, name)
    return dataclasses.field(
        default=field.default, default_factory=field.default_factory, metadata=field.metadata
    )


def find_setting(config: type, name: str) -> Any:
    """Return the field with that name."""
    return next(field for field in dataclasses.fields(config) if field.name == name)


def flag_name(name: str) -> str:
    """Return `--batch-size` for `batch_size`."""
    return "--" + name.replace("_", "-")


def make_settings(config: type[Config], values: Mapping[str, Any], *, name: str) -> Config:
    """Return settings with these values; ConfigError, calling the whole `name`, for a wrong one."""
    kind: Any = config
    allowed = [field.name for field in dataclasses.fields(kind)]
    for key in values:
        if key not in allowed:
            raise ConfigError(f"{name} has no {key!r};{did_you_mean(key, allowed)} {SEE_SETTINGS}")
    return config(**values)


def check_settings(config: Any, *, label: Callable[[str], str] = str) -> None:
    """Check all settings of a dataclass; texts with commas and lists become tuples.

    Raises:
        ConfigError: a value is not allowed; `label` returns the setting's name for the message.
    """
    for field in dataclasses.fields(config):
        if "limits" not in field.metadata:
            continue
        value = getattr(config, field.name)
        if kind_of(field) is tuple and isinstance(value, str | list):
            value = split_list(value) if isinstance(value, str) else tuple(value)
            object.__setattr__(config, field.name, value)
        check(field, value, name=label(field.name))


def check(field: dataclasses.Field[Any], value: Any, *, name: str) -> None:
    """Check the value of one setting; ConfigError if it is not allowed."""
    if value is None and field.default is None:
        return
    if kind_of(field) is Mapping and isinstance(value, Mapping):
        _check_items(field, value, name=name)
    elif not _is_allowed(field, value):
        shown = "has another form" if field.metadata["limits"].is_secret else f"is {value!r}"
        raise ConfigError(f"{name} {shown};{describe_allowed(field, value)}")


def limits_of(field: dataclasses.Field[Any]) -> Limits:
    """Return the limits of a setting."""
    limits: Limits = field.metadata["limits"]
    return limits


def _hint(field: dataclasses.Field[Any]) -> Any:
    """Return the field's type; int for `int | None`."""
    if isinstance(field.type, types.UnionType):
        return next(kind for kind in typing.get_args(field.type) if kind is not _NONE)
    return field.type


def kind_of(field: dataclasses.Field[Any]) -> type:
    """Return bool, int, float, str, tuple (of texts) or Mapping."""
    hint = _hint(field)
    origin = typing.get_origin(hint) or hint
    return collections.abc.Mapping if issubclass(origin, Mapping) else origin


def _number_kind(field: dataclasses.Field[Any]) -> type | None:
    _, kind = typing.get_args(_hint(field)) if kind_of(field) is Mapping else (None, None)
    return kind if kind in (int, float) else None


def _check_items(field: dataclasses.Field[Any], values: Mapping[str, Any], *, name: str) -> None:
    limits, kind = limits_of(field), _number_kind(field)
    for key, value in values.items():
        if limits.choices and key not in limits.choices:
            raise ConfigError(f"{name} has no {key!r};{_choices(limits.choices, key)}")
        if kind and not (_is_number(value, kind) and limits.allow_number(value)):
            raise ConfigError(
                f"{name}.{key} is {value!r}; it must be {_number_words(limits, kind)}"
            )


def _is_number(value: object, kind: type) -> bool:
    allowed = (int, float) if kind is float else int
    return isinstance(value, allowed) and not isinstance(value, bool)


def _is_allowed(field: dataclasses.Field[Any], value: Any) -> bool:
    kind: Any = kind_of(field)
    limits = limits_of(field)
    if kind in (int, float):
        return _is_number(value, kind) and limits.allow_number(value)
    if not isinstance(value, kind):
        return False
    if kind is tuple:
        return all(isinstance(item, str) and not _CONTROL.search(item) for item in value)
    if kind is str and (not value or _CONTROL.search(value)):
        return value == field.default == ""
    if limits.pattern:
        return bool(re.fullmatch(limits.pattern, value))
    return not limits.choices or value in limits.choices


def describe_allowed(field: dataclasses.Field[Any], value: object) -> str:
    """Return what is allowed in words, after a space, with a suggestion for a wrong choice."""
    kind, limits = kind_of(field), limits_of(field)
    if limits.form:
        return f" it must be {limits.form}{', or empty' if field.default == '' else ''}"
    if limits.choices and kind is str:
        return _choices(limits.choices, value)
    words = {
        bool: "true or false",
        int: _number_words(limits, kind),
        float: _number_words(limits, kind),
        str: f"a text on one line{'' if field.default == '' else ' that is not empty'}",
        tuple: "a list of texts, separated by commas, as a,b",
        Mapping: f"{'numbers' if _number_kind(field) else 'values'} by name, as {{NAME: VALUE}}",
    }
    return f" it must be {words[kind]}"


def _choices(allowed: Sequence[str], value: object) -> str:
    return f"{did_you_mean(value, allowed)} allowed are {', '.join(allowed)}"


def _number_words(limits: Limits, kind: type) -> str:
    return f"a {'whole ' if kind is int else ''}number{limits.describe_numbers()}"


def split_list(text: str) -> tuple[str, ...]:
    """Return the items of a text with commas."""
    return tuple(item.strip() for item in text.split(",") if item.strip())
