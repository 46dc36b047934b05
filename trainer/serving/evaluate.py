"""Metrics of a model's predictions."""

from dataclasses import dataclass

import numpy as np

from trainer.workloads.base import Workload
from trainer.workloads.labels import Multilabel, Regression

_BINARY = 2
LIKELY = 0.5


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Metrics of a model; `confusion` has true classes in rows, predicted ones in columns."""

    num_examples: int
    metrics: dict[str, float]
    labels: list[str]
    confusion: list[list[int]]


def score(probabilities: np.ndarray, labels: np.ndarray, names: list[str]) -> Evaluation:
    """Return the evaluation of predicted probabilities [examples, classes].

    Metrics are accuracy, loss (mean cross-entropy) and, of two classes, the area under the ROC
    curve of the second.
    """
    predicted = probabilities.argmax(axis=1)
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(confusion, (labels, predicted), 1)
    likelihoods = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    metrics = {
        "accuracy": float((predicted == labels).mean()),
        "loss": float(-np.log(np.maximum(likelihoods, 1e-12)).mean()),
    }
    if len(names) == _BINARY:
        metrics["auc"] = area_under_curve(probabilities[:, 1], labels)
    return Evaluation(
        num_examples=len(labels), metrics=metrics, labels=names, confusion=confusion.tolist()
    )


def metric_names(workload: Workload) -> dict[str, bool]:
    """Return the metrics of the label's kind, loss included: whether a lower value is better."""
    if isinstance(workload.label, Regression):
        return {"loss": True, "mae": True, "rmse": True, "r2": False}
    if isinstance(workload.label, Multilabel):
        return {"loss": True, "accuracy": False, "auc": False, "f1": False}
    has_two = len(workload.labels) == _BINARY
    return {"loss": True, "accuracy": False, **({"auc": False} if has_two else {})}


def measure(predictions: np.ndarray, labels: np.ndarray, workload: Workload) -> dict[str, float]:
    """Return the metrics of the label's kind.

    `predictions` are values [examples] for Regression, else probabilities [examples, labels].
    """
    if isinstance(workload.label, Regression):
        return measure_values(predictions, labels)
    if isinstance(workload.label, Multilabel):
        return measure_several(predictions, labels)
    return score(predictions, labels, list(workload.labels)).metrics


def measure_values(predictions: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return the metrics of predicted numbers: mae, rmse, and r2 (NaN if all labels are equal)."""
    truth = labels.astype(np.float64)
    errors = predictions.astype(np.float64) - truth
    spread = ((truth - truth.mean()) ** 2).sum()
    return {
        "mae": float(np.abs(errors).mean()),
        "rmse": float(np.sqrt((errors**2).mean())),
        "r2": float(1 - (errors**2).sum() / spread) if spread else float("nan"),
    }


def measure_several(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return the metrics of several labels at once, each the mean over the labels.

    They are accuracy, auc (of the labels that have examples of both kinds) and f1 (0 for a label
    that is neither predicted nor true). A label is predicted from probability 0.5 on.
    """
    predicted, truth = probabilities >= LIKELY, labels >= LIKELY
    hits = (predicted & truth).sum(axis=0)
    areas = [
        area_under_curve(column, true)
        for column, true in zip(probabilities.T, truth.T, strict=True)
        if 0 < true.sum() < len(true)
    ]
    return {
        "accuracy": float((predicted == truth).mean()),
        "auc": float(np.mean(areas)) if areas else float("nan"),
        "f1": float((2 * hits / np.maximum(predicted.sum(axis=0) + truth.sum(axis=0), 1)).mean()),
    }


def score_labels(
    probabilities: np.ndarray, labels: np.ndarray, names: list[str]
) -> list[dict[str, float | str]]:
    """Return a row for each of several labels at once.

    It has the label, its `share` of the examples, precision and recall (NaN if none is predicted,
    or true), f1 and auc.
    """
    rows: list[dict[str, float | str]] = []
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
                "auc": area_under_curve(probabilities[:, at], truth),
            }
        )
    return rows


def area_under_curve(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the probability that an example of class 1 scores above one of class 0.

    Ties count half; the result is NaN when a class has no example.
    """
    _, ties, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[ties]
    num_true = int(labels.sum())
    num_pairs = num_true * (len(labels) - num_true)
    if not num_pairs:
        return float("nan")
    return float((ranks[labels == 1].sum() - num_true * (num_true + 1) / 2) / num_pairs)
