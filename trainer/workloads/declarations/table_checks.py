"""Checks of a table's declaration, and of its settings hidden_units and crosses."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainer.errors import did_you_mean
from trainer.workloads.declarations.features import Feature
from trainer.workloads.declarations.labels import Label
from trainer.workloads.declarations.names import declared_names
from trainer.workloads.encoding.columns import Column


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
        feature.check(features)
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
