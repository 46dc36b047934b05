"""Labels: what a workload predicts; weights of their classes.

The kind of a label decides the default loss, metrics and predictions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from trainer.errors import ConfigError, did_you_mean
from trainer.workloads.declarations.written import NumberLimits, Written

Value = str | int | float | bool
DEFAULT_THRESHOLD = 0.5
BEST_F1 = "f1"
COSTS = ("missed", "false_alarm")


@dataclass(frozen=True)
class Label:
    """The label of an example: a column of a table, or a feature of a record.

    Attributes:
        column: its name; rows of a table without a value are left out.
        missing: texts that mean a missing value, besides the empty one.
    """

    column: str = "label"
    _: KW_ONLY
    missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The label's name in examples."""
        return self.column

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the declared names of the classes or labels, () if they are learnt or no classes.

        A number or a truth value is named by its text.
        """
        return ()


@dataclass(frozen=True)
class Binary(Label):
    """One of two classes.

    Examples store 1 for the positive class and 0 for the other one, int64. Predictions are class,
    label and the probabilities of both classes.

    Attributes:
        positive: the value of the positive class; the other value is the negative class.
        is_one_against_rest: allow more than two values: all but `positive` are the negative class.
        names: the names of the negative and the positive class; default: `not VALUE`, `VALUE`.
        spellings: values by other spellings of them in some files of a table.
        rule: computes the label from arrays of `rule_columns` by name, instead of from `column`;
            returns 0 or 1 for each row.
        rule_columns: the columns that `rule` reads; rows without one of them are quarantined.
        rule_text: the rule in words, for the manifest.
        threshold: the least probability of the positive class from which it is predicted; "f1":
            that with the highest F1 score on the eval split.
        cost: the costs of a missed positive and of a false alarm, in any unit, as
            `{"missed": 10, "false_alarm": 1}`: the threshold with the least cost on the eval split.
    """

    _: KW_ONLY
    positive: Value = 1
    is_one_against_rest: bool = False
    names: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    rule: Any = None
    rule_columns: tuple[str, ...] = ()
    rule_text: str = ""
    threshold: float | str = DEFAULT_THRESHOLD
    cost: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        is_number = isinstance(self.threshold, int | float)
        if not (self.threshold == BEST_F1 or (is_number and 0 < float(self.threshold) < 1)):
            raise ValueError(
                f"threshold of the label {self.column!r} is {self.threshold!r}; it must be a"
                f" probability between 0 and 1, such as 0.3, or {BEST_F1!r}"
            )
        if self.cost and (set(self.cost) != set(COSTS) or min(self.cost.values()) <= 0):
            raise ValueError(
                f"cost of the label {self.column!r} is {self.cost!r}; it must have two numbers"
                ' above 0, such as {"missed": 10, "false_alarm": 1}'
            )
        if self.cost and self.threshold == BEST_F1:
            raise ValueError(
                f"the label {self.column!r} has a cost and threshold={BEST_F1!r}: give one of them"
            )

    @property
    def is_threshold_learnt(self) -> bool:
        """True if the threshold is chosen on the eval split."""
        return self.threshold == BEST_F1 or bool(self.cost and self.threshold == DEFAULT_THRESHOLD)

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the names of the negative and the positive class."""
        return self.names or (f"not {self.positive}", str(self.positive))


@dataclass(frozen=True)
class Classes(Label):
    """One of several classes.

    Examples store the value itself: a text as bytes, a whole number as int64. Predictions are
    class, label and the probabilities of all classes.

    Attributes:
        values: the classes in order; default: the values of the train split, sorted.
        names: the names of `values` in predictions and reports; default: their texts.
        spellings: values by other spellings of them in some files of a table.
    """

    _: KW_ONLY
    values: tuple[Value, ...] = ()
    names: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the declared classes, () if they are learnt from the train split."""
        return self.names or tuple(map(str, self.values))


@dataclass(frozen=True)
class Multilabel(Label):
    """Any number of labels at once.

    Examples store the texts of the labels as a bytes_list, perhaps an empty one. Predictions are
    the labels of at least probability 0.5, and the probability of each label.

    Attributes:
        values: the labels in order; default: the values of the train split, sorted.
        separator: what separates the labels in a column.
    """

    _: KW_ONLY
    values: tuple[str, ...] = ()
    separator: str = "|"

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the declared labels, () if they are learnt from the train split."""
        return self.values


@dataclass(frozen=True)
class Regression(Label, Written, NumberLimits):
    """A number.

    Examples store a float32. A prediction is a value.

    Attributes:
        low, high: the possible values; rows with others are quarantined. None: any.
        unit: of the value, for messages and the report.
    """

    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    unit: str = ""


ClassWeights = Mapping[Value, float]


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
    """Return the weight of each class, in the order of their values; 1 without one.

    A Binary label needs no values. ConfigError names a weight of no class.
    """
    if isinstance(label, Binary):
        negatives = [weight for value, weight in weights.items() if value != label.positive]
        return [float(negatives[0]) if negatives else 1.0, float(weights.get(label.positive, 1.0))]
    check_known(weights, values)
    return [float(weights.get(value, 1.0)) for value in values]


def balanced_weights(counts: Sequence[int], *, column: str) -> list[float]:
    """Return weights with which each class has the same sum, and examples a mean of 1.

    `counts` are the train split's examples of each class; ConfigError if they are unknown.
    """
    if not any(counts):
        raise ConfigError(
            f"class_weights is {BALANCED!r}, but the examples have no statistics.json with the"
            f" counts of {column!r}; prepare them again, or give a weight for each class"
        )
    return [sum(counts) / (len(counts) * max(count, 1)) for count in counts]
