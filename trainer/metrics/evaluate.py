"""Metrics of a model's predictions, by the kind of its label."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer.metrics.class_metrics import (
    COST,
    LIKELY,
    calibration_error,
    has_cost,
    predicted_classes,
    summarized,
)
from trainer.metrics.directions import LOWER_IS_BETTER
from trainer.metrics.resampling import area_statistic, measure
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Label, Multilabel, Regression

_BINARY = 2
MAX_CONFUSION, MAX_PAIRS = 100, 1000
MIN_ROWS, MAX_PROBABILITIES = 1024, 4_000_000  # predicted at once: 16 MB
NUM_PIECES = 25  # that the default model makes of a number
_NUM_DECILES = 10
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)

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


def score(
    predictions: np.ndarray,
    labels: np.ndarray,
    workload: Workload,
    compiled: Mapping[str, float] | None = None,
    label: Label | None = None,
) -> Evaluation:
    """Return the evaluation of predictions, as `measure` takes them, on examples with labels.

    `label` is given for a model with another threshold than the workload's. The loss
    and the metrics of `compiled` are the ones that the model was compiled with. Without them
    the loss is the mean cross-entropy of the true class, the mean binary cross-entropy of several
    labels at once, or the mean squared error of a number.
    """
    label = label or workload.label
    predictions = summarized(predictions, labels, label)
    names, known = list(workload.labels), measure(predictions, labels, label)
    if predictions.ndim > 1 and not isinstance(label, Multilabel):
        known["calibration_error"] = calibration_error(predictions, labels)
    metrics = {name: known[name] for name in evaluated_names(workload) if name in known}
    facts: Row = {"num_examples": len(labels), "metrics": {**metrics, **(compiled or {})}}
    if isinstance(label, Regression):
        return Evaluation(**facts, labels=[], by_decile=score_deciles(predictions, labels))
    if isinstance(label, Multilabel):
        return Evaluation(**facts, labels=names, by_label=score_labels(predictions, labels, names))
    predicted = predicted_classes(predictions, label)
    return Evaluation(**facts, labels=names, **count_confusion(labels, predicted, len(names)))


def count_confusion(labels: np.ndarray, predicted: np.ndarray, size: int) -> dict[str, Any]:
    """Return `confusion`, `pairs` and `by_class` of an Evaluation."""
    cells, counts = np.unique(labels.astype(np.int64) * size + predicted, return_counts=True)
    true, chosen = np.divmod(cells, size)
    wrong = np.flatnonzero(true != chosen)
    worst = wrong[(-counts[wrong]).argsort(kind="stable")[:MAX_PAIRS]]
    matrix = np.zeros(size**2 if size <= MAX_CONFUSION else 0, np.int64)
    if len(matrix):
        matrix[cells] = counts
    sums = [np.bincount(classes, minlength=size) for classes in (labels, predicted)]
    hits = np.bincount(labels[labels == predicted], minlength=size)
    return {
        "confusion": matrix.reshape(-1, size).tolist(),
        "pairs": np.stack([true, chosen, counts], axis=1)[worst].tolist(),
        "by_class": np.stack([*sums, hits], axis=1).tolist(),
    }


def num_rows_at_once(workload: Workload) -> int:
    """Return how many examples to predict at once: few of many classes, or of many columns."""
    num_pieces = NUM_PIECES * len(getattr(workload, "columns", ()))
    return max(MIN_ROWS, MAX_PROBABILITIES // max(len(workload.labels), num_pieces, 1))


def find_labelled(labels: np.ndarray, label: Label) -> np.ndarray:
    """Return which of the labels, as Workload.parse returns them, are not missing: bool [n]."""
    if isinstance(label, Multilabel):
        return np.ones(len(labels), bool)
    return np.isfinite(labels) if isinstance(label, Regression) else labels >= 0


def evaluated_names(workload: Workload) -> dict[str, bool]:
    """Return whether a lower value is better, by metric of an evaluation of the test split.

    Until the classes are learnt there may be two of them, or more.
    """
    names = ["loss", *_names_in_training(workload.label, len(workload.labels))]
    if not isinstance(workload.label, Regression | Multilabel):
        num_classes = len(workload.labels)
        if num_classes in (0, _BINARY):
            names += ["pr_auc", "precision", "recall", "brier", "calibration_error"]
            names += [COST] * has_cost(workload.label)
        names += ["f1"]
    return {name: name in LOWER_IS_BETTER for name in names}


def metric_names(workload: Workload) -> dict[str, bool]:
    """Return whether a lower value is better, by metric of an evaluation in training.

    The metrics follow from the label's kind; the loss is one of them. Until the classes are learnt
    there may be two classes, which have `auc`.
    """
    names = ["loss", *_names_in_training(workload.label, len(workload.labels))]
    return {name: name in LOWER_IS_BETTER for name in names}


def _names_in_training(label: Label, num_classes: int | None) -> list[str]:
    if isinstance(label, Regression):
        return ["mae", "rmse", "r2"]
    if isinstance(label, Multilabel):
        return ["accuracy", "auc", "f1"]
    return ["accuracy", *["auc"] * (num_classes in (0, _BINARY))]


def measure_eval(predictions: np.ndarray, labels: np.ndarray, label: Label) -> dict[str, float]:
    """Return the metrics of an evaluation in training, without a loss that its objective has."""
    num_classes = predictions.shape[1] if predictions.ndim > 1 else None
    names = _names_in_training(label, num_classes)
    if not isinstance(label, Regression | Multilabel):
        names.insert(1, "loss")
    return measure(predictions, labels, label, names)


def score_labels(probabilities: np.ndarray, labels: np.ndarray, names: list[str]) -> list[Row]:
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
                "auc": area_statistic(probabilities[:, at], truth)(np.ones(len(truth), np.int64)),
            }
        )
    return rows


def score_deciles(predictions: np.ndarray, labels: np.ndarray) -> list[Row]:
    """Return a row for each tenth of the examples, by predicted value; fewer for few examples.

    It has the range of predictions (`low`, `high`), `num_examples`, the means `predicted` and
    `actual`, `residual` (the mean of label minus prediction), `mae`, and `residual_shares`: the
    residuals that 10, 25, 50, 75 and 90 % of the examples do not exceed.
    """
    order = predictions.argsort(kind="stable")
    rows: list[Row] = []
    for part in np.array_split(order, min(_NUM_DECILES, len(order))):
        predicted, actual = predictions[part].astype(np.float64), labels[part].astype(np.float64)
        residuals = actual - predicted
        rows.append(
            {
                "low": float(predicted[0]),
                "high": float(predicted[-1]),
                "num_examples": len(part),
                "predicted": float(predicted.mean()),
                "actual": float(actual.mean()),
                "residual": float(residuals.mean()),
                "mae": float(np.abs(residuals).mean()),
                "residual_shares": np.quantile(residuals, _SHARES).tolist(),
            }
        )
    return rows
