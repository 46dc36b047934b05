"""Weights of the classes of a label: given by value, or balanced by the train split's counts."""

import math
from collections.abc import Sequence
from typing import Any

from trainer.errors import ConfigError, did_you_mean
from trainer.workloads.declarations.labels import Binary, Classes, ClassWeights, Label

BALANCED = "balanced"


def check_class_weights(weights: ClassWeights | str, label: Label) -> None:
    """Raise ValueError if the weights do not fit the label; learnt classes are not checked."""
    if not weights:
        return
    if not isinstance(label, Binary | Classes):
        raise ValueError(
            "class_weights need a label of classes, Binary or Classes; weigh examples with weight="
        )
    if isinstance(weights, str):
        if weights != BALANCED:
            raise ValueError(
                f"class_weights is {weights!r}; it must be {BALANCED!r} or weights by class, as"
                " {'yes': 3.0}"
            )
        return
    for value, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ValueError(f"class_weights: {value!r} has {weight!r}; it must be a number")
        if not 0 <= weight < math.inf:
            raise ValueError(f"class_weights: {value!r} has {weight}; it must be 0 or more")
    if isinstance(label, Classes):
        if label.values:
            check_known(weights, label.values)
        return
    negatives = [value for value in weights if value != label.positive]
    if len(negatives) > 1:
        raise ValueError(
            f"class_weights: {negatives[0]!r} and {negatives[1]!r} are both not {label.positive!r},"
            " the positive class; give one weight to all other values"
        )


def check_known(weights: ClassWeights, values: Sequence[Any]) -> None:
    """Raise ConfigError if a class that has a weight is not one of the values."""
    for value in weights:
        if value not in values:
            texts = list(map(repr, values))
            raise ConfigError(
                f"class_weights: {value!r} is not a class;{did_you_mean(repr(value), texts)}"
                f" allowed are {', '.join(texts)}"
            )


def given_weights(weights: ClassWeights, label: Label, values: Sequence[Any]) -> list[float]:
    """Return the weight of each class, 1 for those that are not given.

    Args:
        weights: by value of the class.
        label: of the workload.
        values: of the classes in order; of a Binary label they are not needed.

    Raises:
        ConfigError: a class that has a weight does not exist.
    """
    if isinstance(label, Binary):
        negatives = [weight for value, weight in weights.items() if value != label.positive]
        return [float(negatives[0]) if negatives else 1.0, float(weights.get(label.positive, 1.0))]
    check_known(weights, values)
    return [float(weights.get(value, 1.0)) for value in values]


def balanced_weights(counts: Sequence[int], *, column: str) -> list[float]:
    """Return weights with which each class has the same sum, and examples a mean of 1.

    Args:
        counts: examples of each class in the train split.
        column: the label's, for messages.

    Raises:
        ConfigError: the counts are unknown.
    """
    if not any(counts):
        raise ConfigError(
            f"class_weights is {BALANCED!r}, but the examples have no statistics.json with the"
            f" counts of {column!r}; prepare them again, or give a weight for each class"
        )
    return [sum(counts) / (len(counts) * max(count, 1)) for count in counts]
