"""Metrics as functions of how often each example is drawn, to resample a test split quickly.

Whatever does not depend on the draw, above all the order of the scores, is computed once. Sums of
products are computed by np.einsum: BLAS would divide them over threads that wait for each other.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from trainer.metrics.directions import LOWER_IS_BETTER

Array = np.ndarray
# A metric of a draw: whole numbers [examples], how often each one is drawn; best uint8, which stay
# in the processor's cache. NaN if it is not defined. Not for use by several threads.
Statistic = Callable[[Array], float]
# Returns the statistic of predictions and labels.
Build = Callable[[Array, Array], Statistic]

LEAST_LIKELIHOOD = 1e-12


def gain(metric: str, candidate: Any, other: Any) -> Any:
    """Return by how much a metric is better than another one: negative if it is worse."""
    return other - candidate if metric in LOWER_IS_BETTER else candidate - other


def of_all(statistic: Statistic, num_examples: int) -> float:
    """Return a metric of all examples."""
    return statistic(np.ones(num_examples, np.int64))


def mean_of(values: Array) -> Statistic:
    """Return the mean of values [examples]."""
    exact = values.astype(np.float64)
    return lambda counts: float(np.einsum("i,i", counts, exact) / counts.sum())


def ratio(parts: Array, whole: Array) -> Statistic:
    """Return the sum of the parts divided by the sum of the whole; NaN if that is 0."""
    above, below = parts.astype(np.float64), whole.astype(np.float64)

    def value(counts: Array) -> float:
        total = float(np.einsum("i,i", counts, below))
        return float(np.einsum("i,i", counts, above)) / total if total else float("nan")

    return value


def cross_entropy(likelihoods: Array) -> Array:
    """Return the losses of likelihoods of what is true."""
    return -np.log(np.maximum(likelihoods.astype(np.float64), LEAST_LIKELIHOOD))


def errors(predictions: Array, labels: Array) -> Array:
    """Return exact differences of predictions and labels."""
    return predictions.astype(np.float64) - labels.astype(np.float64)


def area(scores: Array, is_true: Array) -> Statistic:
    """Return the area under the ROC curve as a function of a draw; ties count half."""
    positives, negatives = np.flatnonzero(is_true), np.flatnonzero(~is_true)
    negatives = negatives[scores[negatives].argsort(kind="stable")]
    ordered = scores[negatives]
    below = ordered.searchsorted(scores[positives], side="left")
    not_above = ordered.searchsorted(scores[positives], side="right")
    has_ties = bool((below != not_above).any())
    cumulated = np.zeros(len(negatives) + 1, np.int64)

    def value(counts: Array) -> float:
        np.cumsum(counts[negatives], out=cumulated[1:])
        drawn = counts[positives]
        pairs = int(drawn.sum()) * int(cumulated[-1])
        if not pairs:
            return float("nan")
        wins = np.einsum("i,i", drawn, cumulated[below])
        if has_ties:
            wins = (wins + np.einsum("i,i", drawn, cumulated[not_above])) / 2
        return float(wins / pairs)

    return value


def average_precision(scores: Array, is_true: Array) -> Statistic:
    """Return the area under the precision-recall curve as a function of a draw.

    It is the mean, over the true examples, of the precision of all examples that score as high or
    higher; NaN without any.
    """
    order = (-scores).argsort(kind="stable")
    ordered, truth = scores[order], is_true[order]
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)

    def value(counts: Array) -> float:
        drawn = counts[order]
        hits = np.cumsum(drawn * truth)[ends]
        if not hits[-1]:
            return float("nan")
        precision = hits / np.maximum(np.cumsum(drawn)[ends], 1)
        return float(np.einsum("i,i", np.diff(hits, prepend=0), precision) / hits[-1])

    return value
