"""Whole numbers from `low` to `high`, with a category for each; and the inputs of categories."""

from typing import Any

import numpy as np

from trainer.workloads.declarations.features.base import Feature, read_number
from trainer.workloads.declarations.written import Written
from trainer.workloads.encoding.columns import Column, Compute
from trainer.workloads.encoding.lookups import num_categories, number_integers
from trainer.workloads.encoding.moments import NO_TIME


def category_column(feature: Feature, size: int, compute: Compute, **arguments: Any) -> Column:
    """Return the input of categories, or of a list of them; `arguments` are of `compute`."""
    is_list = feature.is_list
    return feature.column(
        "tokens" if is_list else "category",
        num_categories(size),
        key="" if is_list else feature.name,
        compute=compute,
        length=feature.list_length,
        **arguments,
    )


def missing_whole(feature: Any) -> int:
    """Return the number that stands for a missing one."""
    return -1 if feature.low >= 0 else NO_TIME


def num_whole(feature: Any) -> int:
    """Return how many numbers are possible."""
    return feature.high - feature.low + 1


def whole_column(feature: Any) -> Column:
    """Return the input with a category for each number."""
    vectors = {"low": feature.low, "high": feature.high, "missing": missing_whole(feature)}
    return category_column(feature, num_whole(feature), number_integers, vectors=vectors)


def parse_whole(feature: Any, value: Any) -> np.ndarray:
    """Return the raw value of a field; ValueError names the feature."""
    number, low, high = read_number(feature, value, Written()), feature.low, feature.high
    if number is None:
        return np.asarray(missing_whole(feature), np.int64)
    if not low <= number <= high or number != int(number):
        raise ValueError(
            f"{feature.name} is {value!r:.40}; it must be a whole number from {low} to {high}"
        )
    return np.asarray(number, np.int64)


def plain_whole(feature: Any, values: list[Any]) -> np.ndarray | None:
    """Return the raw values of plain whole numbers; None if each must be looked at."""
    sent = [value for value in values if value is not None]
    if feature.missing or not set(map(type, sent)) <= {int}:
        return None
    if sent and not feature.low <= min(sent) <= max(sent) <= feature.high:
        return None
    return np.asarray(
        [missing_whole(feature) if value is None else value for value in values], np.int64
    )


def format_whole(feature: Any, value: Any) -> int | None:
    """Return the field of a request for a raw value; None for a missing one."""
    return int(value) if value != missing_whole(feature) else None
