"""Checks of a table's declaration, and of its settings hidden_units and crosses."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainer.errors import did_you_mean
from trainer.workloads.declarations.features import (
    TIME_PARTS,
    Category,
    Feature,
    Image,
    Number,
    Text,
    TimePart,
    Timestamp,
)
from trainer.workloads.declarations.labels import Label
from trainer.workloads.declarations.names import declared_names
from trainer.workloads.encoding.columns import Column
from trainer.workloads.encoding.moments import PART_LIMITS

# More categories than that are a mistake: each has weights of its own.
_MOST_CATEGORIES = 5_000_000


def check_features(features: Any, label: Label) -> None:
    """Raise ValueError if the features of a table contradict each other or the label."""
    if isinstance(features, str | bytes) or not isinstance(features, Sequence) or not features:
        raise ValueError(
            "features must be a list of Number, Category, Text, Timestamp, TimePart and Image, as"
            " [Number('age'), Category('plan')]"
        )
    for feature in features:
        if not isinstance(feature, Feature):
            raise ValueError(
                f"features: {feature!r:.60} is not a feature; write Number({feature!r:.60}),"
                f" Category({feature!r:.60}) or another one"
            )
        _check_feature(feature, features)
    names = [feature.name for feature in features]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"features: {twice[0]!r} occurs twice")
    if label.column in names:
        raise ValueError(
            f"features: {label.column!r} is the label, and so cannot be a feature; remove it"
        )
    if not any(feature.is_used for feature in features):
        raise ValueError("features: none of them is used by the model")


def check_input_names(columns: Iterable[Column]) -> None:
    """Raise ValueError if two features would become inputs of the same name."""
    names = [column.name for column in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(
            f"features: two of them would be the model's input {twice[0]!r}; rename one, with"
            " aliases if the files have that name"
        )


def most_categories(feature: Feature) -> dict[str, int]:
    """Return the maximum numbers of categories of a feature, by the names that crosses use."""
    if isinstance(feature, Number):
        return {feature.name: feature.buckets} if feature.buckets else {}
    if isinstance(feature, TimePart):
        return {feature.name: feature.high - feature.low + 1}
    if isinstance(feature, Timestamp):
        parts = [part for part in feature.parts if part in PART_LIMITS]
        return {
            f"{feature.name}_{part}": PART_LIMITS[part][1] - PART_LIMITS[part][0] + 1
            for part in parts
        }
    if not isinstance(feature, Category) or feature.separator:
        return {}
    if feature.is_integer:
        return {feature.name: (feature.high or 0) - (feature.low or 0) + 1}
    return {feature.name: feature.hashed or len(feature.values) or feature.max_values}


def _check_feature(feature: Feature, features: Sequence[Feature]) -> None:
    name = feature.name
    if not isinstance(name, str) or not name:
        raise ValueError(f"features: a feature has the name {name!r}; it must be a text")
    if name == "key":
        raise ValueError("features: 'key' is reserved for the key of a request; rename it")
    low, high = getattr(feature, "low", None), getattr(feature, "high", None)
    if low is not None and high is not None and low > high:
        raise ValueError(f"{name}: low is {low}, above high, {high}")
    if isinstance(feature, Number):
        _check_number(feature)
    elif isinstance(feature, Category):
        _check_category(feature)
    elif isinstance(feature, Text):
        for setting in ("max_tokens", "max_length"):
            _check_positive(name, setting, getattr(feature, setting))
    elif isinstance(feature, Timestamp):
        if unknown := set(feature.parts) - set(TIME_PARTS):
            raise ValueError(
                f"{name}: {unknown.pop()!r} is not a part; allowed are {', '.join(TIME_PARTS)}"
            )
    elif isinstance(feature, Image):
        try:
            feature.check_decoding()
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    elif isinstance(feature, TimePart):
        _check_time_part(feature, features)


def _check_number(feature: Number) -> None:
    name = feature.name
    if feature.buckets < 0 or feature.buckets == 1:
        raise ValueError(f"{name}: buckets is {feature.buckets}; it must be 2 or more, or 0")
    if feature.is_used and not (feature.is_scaled or feature.buckets):
        raise ValueError(f"{name}: with is_scaled=False it needs buckets, or is_used=False")
    if feature.length and feature.buckets:
        raise ValueError(f"{name}: a list of numbers has no buckets")


def _check_category(feature: Category) -> None:
    name = feature.name
    if (feature.low is None) != (feature.high is None):
        raise ValueError(f"{name}: whole numbers need both low and high, or neither")
    kinds = {
        "values": bool(feature.values),
        "hashed": bool(feature.hashed),
        "low and high": feature.is_integer,
    }
    declared = [kind for kind, is_given in kinds.items() if is_given]
    if len(declared) > 1:
        raise ValueError(f"{name}: {' and '.join(declared)} cannot both be given; leave one out")
    if isinstance(feature.values, str) or not all(isinstance(text, str) for text in feature.values):
        raise ValueError(f"{name}: values is {feature.values!r:.60}; it must be a tuple of texts")
    _check_positive(name, "max_values", feature.max_values)
    size = next(iter(most_categories(feature).values()), 0)
    if feature.is_used and size > _MOST_CATEGORIES:
        raise ValueError(
            f"{name}: it has {size:,} categories; at most {_MOST_CATEGORIES:,} are allowed: use"
            " hashed=10_000, or a Number"
        )


def _check_time_part(feature: TimePart, features: Sequence[Feature]) -> None:
    if feature.part not in PART_LIMITS:
        raise ValueError(
            f"{feature.name}: {feature.part!r} is not a part; allowed are {', '.join(PART_LIMITS)}"
        )
    if not any(isinstance(column, Timestamp) and column.name == feature.of for column in features):
        raise ValueError(
            f"{feature.name}: {feature.of!r} is not a Timestamp of the table; add"
            f" Timestamp({feature.of!r})"
        )


def _check_positive(name: str, setting: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name}: {setting} is {value}; it must be at least 1")


# Each has a weight per class, and the optimizer's state for it: some 200 MB in all.
MOST_COMBINATIONS = 5_000_000


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return (128, 64) for `128,64`; ValueError if it is invalid."""
    sizes = [size.strip() for size in text.split(",")]
    if not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
        raise ValueError(
            f"model.hidden_units: {text!r} is not allowed; use whole numbers from 1, such as 128,64"
        )
    return tuple(map(int, sizes))


def parse_crosses(
    text: str, sizes: Mapping[str, int], aliases: Mapping[str, str]
) -> tuple[tuple[str, ...], ...]:
    """Return (("a", "b"), ("c", "d")) for `a:b,c:d`, () for `none`; ValueError if it is invalid.

    `sizes` are the maximum numbers of categories of each column, `aliases` other names of columns.
    """
    if text.strip() == "none":
        return ()
    written = [[name.strip() for name in cross.split(":")] for cross in text.split(",")]
    crosses = [tuple(declared_names(cross, sizes, aliases)) for cross in written]
    check_crosses(crosses, sizes)
    return tuple(crosses)


def check_crosses(crosses: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> None:
    """Raise ValueError if a cross is invalid; `sizes` as in `parse_crosses`."""
    for cross in crosses:
        _check_cross(cross, sizes)
    if twice := [":".join(cross) for cross in crosses if crosses.count(cross) > 1]:
        raise ValueError(f"crosses: {twice[0]} occurs twice")


def _check_cross(cross: Sequence[str], sizes: Mapping[str, int]) -> None:
    shown = ":".join(cross)
    if unknown := [name for name in cross if name not in sizes]:
        hint = did_you_mean(unknown[0], sizes)
        raise ValueError(
            f"crosses: {unknown[0]!r} in {shown!r} is not a column;{hint} allowed are"
            f" {', '.join(sizes)}"
        )
    if len(set(cross)) != len(cross) or len(cross) < 2:  # noqa: PLR2004
        raise ValueError(
            f"crosses: {shown!r} is not allowed; separate two or more different columns by ':', and"
            " crosses by ','"
        )
    if (count := math.prod(sizes[name] for name in cross)) > MOST_COMBINATIONS:
        raise ValueError(
            f"crosses: {shown!r} has up to {count:,} combinations; at most"
            f" {MOST_COMBINATIONS:,} are allowed: cross fewer columns"
        )
