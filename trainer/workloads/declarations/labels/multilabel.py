"""The label Multilabel: any number of labels at once."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from trainer.metrics.decision import DecisionRule
from trainer.metrics.evaluation import Row
from trainer.metrics.statistics import (
    LEAST_LIKELIHOOD,
    Array,
    Build,
    Statistic,
    area,
    cross_entropy,
    mean_of,
    of_all,
)
from trainer.runtime.lazy import keras, tf
from trainer.workloads.declarations.labels.base import Label
from trainer.workloads.declarations.written import plain_text
from trainer.workloads.encoding.lookups import FIRST, number_terms

LIKELY = 0.5  # from here on one of several labels is predicted
_MOST_LABELS = 100  # of one example that labels are learnt from


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

    is_list = True
    steepest = 0.25
    in_training = ("accuracy", "auc", "f1")

    @property
    def words(self) -> str:
        return "any number of labels"

    @property
    def learns_classes(self) -> bool:
        return not self.values

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the declared labels, () if they are learnt from the train split."""
        return self.values

    def spec(self, classes: Sequence[Any]) -> Any:
        return tf.io.RaggedFeature(tf.string)

    def as_stored(self) -> Self:
        return replace(self, values=tuple(plain_text(str(value)) for value in self.values))

    def numbered(self, raw: Any, classes: Sequence[Any]) -> Any:
        terms = list(map(str, self.values or classes))
        numbers = number_terms(raw.values, vocabularies=[terms]) - FIRST
        one_hot = tf.one_hot(numbers, len(terms))
        counts = tf.math.unsorted_segment_sum(one_hot, raw.value_rowids(), raw.nrows())
        return tf.minimum(counts, 1.0)

    def to_learn(self, raw: Any) -> Any:
        """Return the labels of each example, padded with empty ones."""
        return raw.to_tensor(default_value="", shape=[None, _MOST_LABELS])

    def output_shapes(self, num_classes: int) -> dict[tuple[int, ...], str]:
        return {(num_classes,): f"keras.layers.Dense({num_classes})"}

    def predictions(self, output: Any, *, has_logits: bool) -> Any:
        output = tf.cast(output, tf.float32)
        return tf.sigmoid(output) if has_logits else output

    def logits(self, predictions: Any) -> Any:
        sides = tf.maximum([predictions, 1 - predictions], LEAST_LIKELIHOOD)
        return tf.math.log(sides[0]) - tf.math.log(sides[1])

    def served(self, predictions: Any, decision: DecisionRule, names: Any) -> dict[str, Any]:
        labels = tf.where(predictions >= LIKELY, names, "")
        return {"labels": labels, "probabilities": predictions}

    def compiled(self, *, is_single: bool, has_logits: bool, smoothing: float) -> tuple[Any, Any]:
        return binary_compiled(has_logits=has_logits, smoothing=smoothing)

    def sample(self, random: np.random.Generator, size: int, num_classes: int) -> Array:
        return random.integers(2, size=(size, num_classes)).astype(np.float32)

    def find_labelled(self, labels: Array) -> Array:
        return np.ones(len(labels), bool)

    def losses(self, predictions: Array, labels: Array) -> Array:
        likelihoods = np.where(labels >= LIKELY, predictions, 1 - predictions)
        return cross_entropy(likelihoods).mean(axis=1)

    def statistics(self, num_classes: int) -> dict[str, Build]:
        return {
            "f1": _f1,
            "accuracy": lambda probabilities, labels: mean_of(
                ((probabilities >= LIKELY) == (labels >= LIKELY)).mean(axis=1)
            ),
            "auc": _mean_area,
            "loss": self.mean_loss,
        }

    def details(self, predictions: Array, labels: Array, names: Sequence[str]) -> dict[str, Any]:
        return {"by_label": score_labels(predictions, labels, names)}

    def error_sizes(self, predictions: Array, labels: Array) -> Array:
        """Return the largest distance from the true probabilities, 0 and 1, of a wrong example."""
        is_wrong = ((predictions >= LIKELY) != (labels >= LIKELY)).any(axis=1)
        return np.where(is_wrong, np.abs(predictions - labels).max(axis=1), 0)

    def why_undefined(self, metric: str, labels: Array, names: Sequence[str], examples: str) -> str:
        return f"no label is both present and absent in {examples}" if metric == "auc" else ""

    def shown(self, value: Any, names: Sequence[str]) -> Any:
        return [name for name, share in zip(names, value, strict=True) if share >= LIKELY]

    def groups(self, labels: Array, count: int) -> Array:
        """Return the first of the labels of each example."""
        return np.argmax(labels, axis=1)

    def fit_constant(self, labels: Array, num_classes: int) -> Array:
        return labels.mean(axis=0, dtype=np.float64)

    def outputs(self, labels: Array, num_classes: int) -> Array:
        return labels


def binary_compiled(*, has_logits: bool, smoothing: float) -> tuple[Any, Any]:
    """Return Keras' loss and metric of probabilities that do not add up to 1."""
    loss = keras.losses.BinaryCrossentropy(from_logits=has_logits, label_smoothing=smoothing)
    threshold = 0.0 if has_logits else 0.5
    return loss, keras.metrics.BinaryAccuracy(name="accuracy", threshold=threshold)


def score_labels(probabilities: Array, labels: Array, names: Sequence[str]) -> list[Row]:
    """Return a row for each of several labels at once.

    It has the label, its `share` of the examples, precision and recall (NaN if none is predicted,
    or true), f1 and auc.
    """
    rows: list[Row] = []
    for at, name in enumerate(names):
        predicted, truth = probabilities[:, at] >= LIKELY, labels[:, at] >= LIKELY
        hits, num_predicted, num_true = (predicted & truth).sum(), predicted.sum(), truth.sum()
        rows.append(
            {
                "label": name,
                "share": float(truth.mean()),
                "precision": float(hits / num_predicted) if num_predicted else float("nan"),
                "recall": float(hits / num_true) if num_true else float("nan"),
                "f1": float(2 * hits / max(num_predicted + num_true, 1)),
                "auc": of_all(area(probabilities[:, at], truth), len(truth)),
            }
        )
    return rows


def _f1(probabilities: Array, labels: Array) -> Statistic:
    predicted, truth = probabilities >= LIKELY, labels >= LIKELY
    hits, both = (predicted & truth).astype(float), predicted.astype(float) + truth

    def score(counts: Array) -> float:
        num_hits, num_either = (np.einsum("i,ij->j", counts, matrix) for matrix in (hits, both))
        return float((2 * num_hits / np.maximum(num_either, 1)).mean())

    return score


def _mean_area(probabilities: Array, labels: Array) -> Statistic:
    areas = [
        area(scores, truth)
        for scores, truth in zip(probabilities.T, (labels >= LIKELY).T, strict=True)
        if 0 < truth.sum() < len(truth)
    ]

    def mean(counts: Array) -> float:
        values = np.array([area(counts) for area in areas])
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else float("nan")

    return mean
