"""Metrics of a model's predictions."""

from dataclasses import dataclass

import numpy as np

_BINARY = 2


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
