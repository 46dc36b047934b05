"""Metrics of the predicted probabilities of classes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainer.workloads.declarations.labels import DEFAULT_THRESHOLD, Label, Multilabel

# A metric of a draw: whole numbers [examples], how often each one is drawn; best uint8, which stay
# in the processor's cache. NaN if it is not defined. Not for use by several threads.
Statistic = Callable[[np.ndarray], float]

# What metrics need of the probabilities of more than two classes, however many they are. The
# likelihood is the predicted class's, NaN if a probability is not finite.
CHOICE = np.dtype([("predicted", np.int32), ("likelihood", np.float32), ("truth", np.float32)])
COST = "cost"
LIKELY = 0.5  # from here on one of several labels is predicted
LEAST_LIKELIHOOD = 1e-12
_BINARY = 2
_NUM_BINS = 10


def summarized(predictions: np.ndarray, labels: np.ndarray, label: Label) -> np.ndarray:
    """Return a CHOICE for each row of probabilities of more than two classes, else all predictions.

    These are values [examples] for Regression, else probabilities [examples, labels].
    """
    if predictions.ndim == 1 or predictions.shape[1] == _BINARY or isinstance(label, Multilabel):
        return predictions
    rows = np.arange(len(labels))
    choices = np.empty(len(labels), CHOICE)
    choices["predicted"] = predictions.argmax(axis=1)
    likelihoods = predictions[rows, choices["predicted"]]
    is_finite = np.isfinite(predictions.sum(axis=1))
    choices["likelihood"] = np.where(is_finite, likelihoods, np.nan)
    choices["truth"] = predictions[rows, labels]
    return choices


def predicted_classes(predictions: np.ndarray, label: Label) -> np.ndarray:
    """Return the predicted class of each example, of CHOICE or probabilities of two classes.

    It is the likeliest one or, with a threshold, the second of two classes from that probability
    on. A threshold that is not chosen yet, which is on the eval split, counts as 0.5.
    """
    if predictions.dtype == CHOICE:
        return predictions["predicted"]
    threshold = getattr(label, "threshold", None)
    is_own = isinstance(threshold, float) and threshold != DEFAULT_THRESHOLD
    if not is_own:
        return np.asarray(predictions.argmax(axis=1))
    return (predictions[:, 1] >= threshold).astype(np.int64)


def likelihoods(predictions: np.ndarray, label: Label) -> np.ndarray:
    """Return the probability of each example's predicted class, see `predicted_classes`."""
    if predictions.dtype == CHOICE:
        return predictions["likelihood"]
    return predictions[np.arange(len(predictions)), predicted_classes(predictions, label)]


def true_likelihoods(predictions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the probability of each example's class, of CHOICE or probabilities of two classes."""
    if predictions.dtype == CHOICE:
        return predictions["truth"].astype(np.float64)
    return predictions[np.arange(len(labels)), labels].astype(np.float64)


def calibration_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean distance of predicted and actual share over the rows of `calibration`."""
    curve = calibration(probabilities[:, 1].astype(np.float64), labels)
    gaps = [row["num_examples"] * abs(row["predicted"] - row["actual"]) for row in curve]
    return float(sum(gaps) / len(labels))


def macro_f1(predicted: np.ndarray, labels: np.ndarray, _label: Label) -> Statistic:
    """Return the mean f1 of the classes that are predicted or true."""
    classes = np.concatenate([predicted, labels])
    _, numbered = np.unique(classes, return_inverse=True)
    predicted, labels = np.split(numbered, 2)
    size, hits = int(numbered.max()) + 1, predicted == labels

    def score(counts: np.ndarray) -> float:
        both = np.bincount(predicted, counts, size) + np.bincount(labels, counts, size)
        doubled_hits = 2 * np.bincount(labels[hits], counts[hits], size)
        return float((doubled_hits[both > 0] / both[both > 0]).mean())

    return score


def mean_cost(predicted: np.ndarray, labels: np.ndarray, label: Label) -> Statistic:
    """Return the mean cost of an example, by the costs that the label declares."""
    cost: Mapping[str, float] = getattr(label, "cost", {})
    missed, false_alarm = (predicted < labels), (predicted > labels)
    return mean_of(missed * cost["missed"] + false_alarm * cost["false_alarm"])


def mean_of(values: np.ndarray) -> Statistic:
    """Return the mean of values [examples]."""
    exact = values.astype(np.float64)
    return lambda counts: float(np.einsum("i,i", counts, exact) / counts.sum())


def _ratio(parts: np.ndarray, whole: np.ndarray) -> Statistic:
    """Return the sum of the parts divided by the sum of the whole; NaN if that is 0."""
    above, below = parts.astype(np.float64), whole.astype(np.float64)

    def value(counts: np.ndarray) -> float:
        total = float(np.einsum("i,i", counts, below))
        return float(np.einsum("i,i", counts, above)) / total if total else float("nan")

    return value


def _hits(predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return (predicted == 1) & (labels == 1)


# Metrics of the predicted classes of two, as functions of (predicted, labels, label).
DECIDED: dict[str, Callable[..., Statistic]] = {
    "precision": lambda predicted, labels, _: _ratio(_hits(predicted, labels), predicted == 1),
    "recall": lambda predicted, labels, _: _ratio(_hits(predicted, labels), labels == 1),
    "f1": lambda predicted, labels, _: _ratio(
        2.0 * _hits(predicted, labels), (predicted == 1) * 1.0 + (labels == 1)
    ),
    COST: mean_cost,
}


def has_cost(label: Label) -> bool:
    """Return whether a label declares the costs of its two mistakes."""
    return bool(getattr(label, "cost", None))


def decided_metrics(label: Label) -> dict[str, Callable[..., Statistic]]:
    """Return the metrics of DECIDED that a label of two classes has."""
    return {name: of for name, of in DECIDED.items() if name != COST or has_cost(label)}


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
