"""Rules that cut a split into slices.

RULE      = PART ("&" PART)*
PART      = FEATURE                          each value of it, or quarters of a number
          | "missing(" FEATURE ")"
          | "buckets(" FEATURE (";" NUMBER)+ ")"
          | FEATURE ("=" | "!=" | "<" | "<=" | ">" | ">=") VALUE
FEATURE   = its name, as declared or as in the files; with & = ! < > or ; in it, in double quotes
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.errors import ConfigError, did_you_mean
from trainer.workloads.declarations.names import declared_names

Mask = NDArray[np.bool_]
Columns = Mapping[str, NDArray[Any]]

NUM_QUARTERS = 4
# A number with more distinct values is cut into quarters.
MAX_NUMBERS = 31
# Of a text with more values, the most frequent ones are slices.
MAX_VALUES = 50
FORM = (
    "write a FEATURE, missing(FEATURE), buckets(FEATURE; 5; 20), or a comparison such as"
    " FEATURE > 20 or FEATURE = Cash, or several with & between them"
)
_NAME = r'"[^"]+"|[^\s"&=!<>;](?:[^"&=!<>;]*[^\s"&=!<>;])?'
_AND = r'&(?=(?:[^"]*"[^"]*")*[^"]*$)'  # not in quotes
_MISSING = re.compile(rf"missing\(\s*({_NAME})\s*\)")
_BUCKETS = re.compile(rf"buckets\(\s*({_NAME})\s*;([^()]*)\)")
_COMPARISON = re.compile(rf"({_NAME})\s*(!=|<=|>=|=|<|>)\s*([^=<>].*)")
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, kw_only=True)
class SliceCondition:
    """One condition of a rule; `arguments` are the boundaries of buckets, or the compared value."""

    kind: str
    feature: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule as its user has written it, with its conditions."""

    text: str
    parts: tuple[SliceCondition, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the rule reads."""
        return tuple(part.feature for part in self.parts)


def parse_rule(text: str) -> Rule:
    """Return the rule of a text.

    Raises:
        ConfigError: the text is no rule; says what is.
    """
    return Rule(text, tuple(_parse_part(part.strip(), text) for part in re.split(_AND, text)))


def with_declared_names(
    rules: Iterable[Rule], known: Sequence[str], aliases: Mapping[str, str], *, owner: str
) -> list[Rule]:
    """Return rules by the declared names of features; the written names may be the files'.

    Raises:
        ConfigError: a model does not get a feature; lists the features of `owner`.
    """
    return [
        replace(
            rule, parts=tuple(_declared(part, rule, known, aliases, owner) for part in rule.parts)
        )
        for rule in rules
    ]


def _declared(
    part: SliceCondition, rule: Rule, known: Sequence[str], aliases: Mapping[str, str], owner: str
) -> SliceCondition:
    [name] = declared_names([part.feature], known, aliases)
    if name not in known:
        raise ConfigError(
            f"gate.slices has {rule.text!r}, but {owner} has no feature {part.feature!r};"
            f"{did_you_mean(part.feature, [*known, *aliases])} it has {', '.join(known)}"
        )
    return replace(part, feature=name)


def cut(rule: Rule, columns: Columns, missing: Mapping[str, Any]) -> dict[str, Mask]:
    """Return the examples of each slice of a rule, by the slice's value: "" if it is the only one.

    `columns` are raw features [examples] by name; `missing` has the number that stands for a
    missing value, of features of whole numbers.

    Raises:
        ConfigError: a number is compared with a text, or a text is compared as a number.
    """
    masks: dict[str, Mask] = {"": np.ones(len(next(iter(columns.values()))), bool)}
    for part in rule.parts:
        column = columns[part.feature]
        absent = is_missing(column, missing.get(part.feature))
        try:
            pieces = _pieces(part, column, absent)
        except ConfigError as error:
            raise ConfigError(f"gate.slices has {rule.text!r}, but {error}") from error
        masks = {
            " & ".join(filter(None, [outer, inner])): whole & piece
            for outer, whole in masks.items()
            for inner, piece in pieces.items()
        }
    return {name: mask for name, mask in masks.items() if mask.any()}


def is_missing(column: NDArray[Any], missing: Any) -> Mask:
    """Return which values are missing: NaN, an empty text, or the number `missing`."""
    if column.dtype.kind == "f":
        return np.asarray(np.isnan(column))
    if column.dtype.kind != "O" and missing is None:
        return np.zeros(len(column), bool)
    return np.asarray(column == (missing if missing is not None else ""), bool)


def _parse_part(part: str, text: str) -> SliceCondition:
    if match := _MISSING.fullmatch(part):
        return SliceCondition(kind="missing", feature=match[1].strip('"'))
    if match := _BUCKETS.fullmatch(part):
        boundaries = tuple(text.strip() for text in match[2].split(";"))
        numbers = [number for text in boundaries if (number := _number(text)) is not None]
        if len(numbers) == len(boundaries) and numbers == sorted(set(numbers)):
            return SliceCondition(kind="buckets", feature=match[1].strip('"'), arguments=boundaries)
    if match := _COMPARISON.fullmatch(part):
        value = match[3].strip()
        if match[2] in ("=", "!=") or _number(value) is not None:
            return SliceCondition(kind=match[2], feature=match[1].strip('"'), arguments=(value,))
    if re.fullmatch(_NAME, part) and not part.startswith(("missing(", "buckets(")):
        return SliceCondition(kind="values", feature=part.strip('"'))
    raise ConfigError(f"gate.slices has {text!r}, which is not a slice; {FORM}")


def _pieces(part: SliceCondition, column: NDArray[Any], absent: Mask) -> dict[str, Mask]:
    if part.kind == "missing":
        return {"": absent}
    if part.kind == "buckets":
        if column.dtype.kind == "O":
            raise ConfigError(f"{part.feature} is a text, which has no buckets")
        return _buckets(column, [float(argument) for argument in part.arguments], absent)
    if part.kind == "values":
        return _values(column, absent)
    [value] = part.arguments
    number = _number(value)
    if column.dtype.kind != "O" and number is None:
        raise ConfigError(f"{part.feature} is a number, {value!r} is not")
    compared: Any = value if column.dtype.kind == "O" else number
    if column.dtype.kind == "O" and part.kind not in ("=", "!="):
        raise ConfigError(f"{part.feature} is a text, which has only = and !=")
    return {"": np.asarray(_COMPARE[part.kind](column, compared)) & ~absent}


def _values(column: NDArray[Any], absent: Mask) -> dict[str, Mask]:
    values, counts = np.unique(column[~absent], return_counts=True)
    if column.dtype.kind != "O" and len(values) > MAX_NUMBERS:
        shares = np.linspace(0, 1, NUM_QUARTERS + 1)[1:-1]
        inner = np.unique(np.quantile(column[~absent], shares))
        return _buckets(column, inner.tolist(), absent)
    frequent = sorted(values[np.argsort(-counts, kind="stable")[:MAX_VALUES]].tolist())
    return {_shown(value): column == value for value in frequent}


def _buckets(column: NDArray[Any], boundaries: list[float], absent: Mask) -> dict[str, Mask]:
    numbers = np.digitize(column, boundaries)
    ends = [f"{boundary:.6g}" for boundary in boundaries]
    names = [f"below {ends[0]}"] if ends else ["any"]
    names += [f"{low} to {high}" for low, high in pairwise(ends)]
    names += [f"from {ends[-1]}"] if ends else []
    return {name: (numbers == at) & ~absent for at, name in enumerate(names)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
