"""Labels: what a workload predicts. The kind decides the default loss, metrics and predictions."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from trainer.workloads.declarations.written import Limits, Written

Value = str | int | float | bool


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
    """

    _: KW_ONLY
    positive: Value = 1
    is_one_against_rest: bool = False
    names: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    rule: Any = None
    rule_columns: tuple[str, ...] = ()
    rule_text: str = ""

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
class Regression(Label, Written, Limits):
    """A number, in texts perhaps with other signs than a program's, see Written.

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
