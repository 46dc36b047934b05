"""The evaluation of a model's predictions."""

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Metrics of a model.

    Attributes:
        num_examples: the examples with a label; others are left out.
        metrics: by name, the loss included.
        labels: names of the classes or labels.
        confusion: counts, true classes in rows, predicted ones in columns; [] of many classes.
        pairs: (true class, predicted class, examples), the most frequent mistakes of classes first.
        by_class: (examples, examples predicted as it, hits) of each class.
        by_label: a row for each label of a Multilabel, see `score_labels`.
        by_decile: a row for each decile of the predictions of a Regression, see `score_deciles`.
    """

    num_examples: int
    metrics: dict[str, float]
    labels: list[str]
    confusion: list[list[int]] = field(default_factory=list)
    pairs: list[list[int]] = field(default_factory=list)
    by_class: list[list[int]] = field(default_factory=list)
    by_label: list[Row] = field(default_factory=list)
    by_decile: list[Row] = field(default_factory=list)
