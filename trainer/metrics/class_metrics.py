"""Metrics of the predicted probabilities of classes."""

from typing import Any

import numpy as np

from trainer.metrics.statistics import Array, Statistic

# What metrics need of the probabilities of more than two classes, however many they are. The
# likelihood is the predicted class's, NaN if a probability is not finite.
CHOICE = np.dtype([("predicted", np.int32), ("likelihood", np.float32), ("truth", np.float32)])
MAX_CONFUSION, MAX_PAIRS = 100, 1000
_NUM_BINS = 10


def choices_of(probabilities: Array, labels: Array) -> Array:
    """Return a CHOICE for each row of probabilities."""
    rows = np.arange(len(labels))
    choices = np.empty(len(labels), CHOICE)
    choices["predicted"] = probabilities.argmax(axis=1)
    likelihoods = probabilities[rows, choices["predicted"]]
    is_finite = np.isfinite(probabilities.sum(axis=1))
    choices["likelihood"] = np.where(is_finite, likelihoods, np.nan)
    choices["truth"] = probabilities[rows, labels]
    return choices


def true_likelihoods(predictions: Array, labels: Array) -> Array:
    """Return the probability of each example's class, of CHOICE or probabilities of two classes."""
    if predictions.dtype == CHOICE:
        return predictions["truth"]
    return predictions[np.arange(len(labels)), labels]


def find_not_finite(predictions: Array) -> Array:
    """Return the examples whose predictions, values or CHOICE, have a NaN or an infinity."""
    if predictions.dtype == CHOICE:
        predictions = predictions["likelihood"]
    return np.flatnonzero(~np.atleast_2d(np.isfinite(predictions).T).all(axis=0))


def macro_f1(predicted: Array, labels: Array) -> Statistic:
    """Return the mean f1 of the classes that are predicted or true."""
    classes = np.concatenate([predicted, labels])
    _, numbered = np.unique(classes, return_inverse=True)
    predicted, labels = np.split(numbered, 2)
    size, hits = int(numbered.max()) + 1, predicted == labels

    def score(counts: Array) -> float:
        both = np.bincount(predicted, counts, size) + np.bincount(labels, counts, size)
        doubled_hits = 2 * np.bincount(labels[hits], counts[hits], size)
        return float((doubled_hits[both > 0] / both[both > 0]).mean())

    return score


def calibration(scores: Array, labels: Array) -> list[dict[str, Any]]:
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


def calibration_error(scores: Array, labels: Array) -> float:
    """Return the mean distance of predicted and actual share over the rows of `calibration`."""
    curve = calibration(scores.astype(np.float64), labels)
    gaps = [row["num_examples"] * abs(row["predicted"] - row["actual"]) for row in curve]
    return float(sum(gaps) / len(labels))


def count_confusion(labels: Array, predicted: Array, size: int) -> dict[str, Any]:
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
