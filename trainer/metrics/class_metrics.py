"""Metrics of the predicted probabilities of classes."""

from collections.abc import Callable
from typing import Any

import numpy as np

LEAST_LIKELIHOOD = 1e-12
_BINARY = 2
_NUM_BINS = 10


def measure_classes(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return accuracy, loss (mean cross-entropy) and, of two classes, the auc of the second."""
    likelihoods = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    metrics = {
        "accuracy": float((probabilities.argmax(axis=1) == labels).mean()),
        "loss": float(-np.log(np.maximum(likelihoods, LEAST_LIKELIHOOD)).mean()),
    }
    if probabilities.shape[1] == _BINARY:
        metrics["auc"] = area_under_curve(probabilities[:, 1], labels)
    return metrics


def measure_probabilities(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return further metrics of classes.

    They are pr_auc (average precision), brier and calibration_error of the second of two classes,
    or f1, the mean over more classes (without those that are neither predicted nor true).
    """
    if probabilities.shape[1] != _BINARY:
        predicted, size = probabilities.argmax(axis=1), probabilities.shape[1]
        hits = np.bincount(labels[predicted == labels], minlength=size)
        both = np.bincount(predicted, minlength=size) + np.bincount(labels, minlength=size)
        return {"f1": float((2 * hits[both > 0] / both[both > 0]).mean())}
    scores = probabilities[:, 1].astype(np.float64)
    curve = calibration(scores, labels)
    gaps = [row["num_examples"] * abs(row["predicted"] - row["actual"]) for row in curve]
    return {
        "pr_auc": average_precision(scores, labels == 1)(np.ones(len(labels), np.int64)),
        "brier": float(((scores - labels) ** 2).mean()),
        "calibration_error": float(sum(gaps) / len(labels)),
    }


def calibration(scores: np.ndarray, labels: np.ndarray) -> list[dict[str, Any]]:
    """Return a row for each tenth of the examples, by score; fewer for few examples.

    It has the mean score `predicted`, the share `actual` of class 1, and `num_examples`.
    """
    order = scores.argsort(kind="stable")
    return [
        {
            "predicted": float(scores[part].mean()),
            "actual": float(labels[part].mean()),
            "num_examples": len(part),
        }
        for part in np.array_split(order, min(_NUM_BINS, len(order)))
    ]


def average_precision(scores: np.ndarray, is_true: np.ndarray) -> Callable[[np.ndarray], float]:
    """Return the area under the precision-recall curve as a function of counts [examples].

    The counts are the number of times that each example occurs. The area is the mean, over the true
    examples, of the precision of all examples that score as high or higher; NaN without any.
    """
    order = (-scores).argsort(kind="stable")
    ordered, truth = scores[order], is_true[order]
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)

    def area(counts: np.ndarray) -> float:
        drawn = counts[order]
        hits = np.cumsum(drawn * truth)[ends]
        if not hits[-1]:
            return float("nan")
        precision = hits / np.maximum(np.cumsum(drawn)[ends], 1)
        return float(np.einsum("i,i", np.diff(hits, prepend=0), precision) / hits[-1])

    return area


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
