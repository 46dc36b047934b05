"""Metrics as functions of how often each example is drawn, to resample a test split quickly.

Whatever does not depend on the draw, above all the order of the scores, is computed once. Sums of
products are computed by np.einsum: BLAS would divide them over threads that wait for each other.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trainer.metrics.class_metrics import (
    DECIDED,
    LEAST_LIKELIHOOD,
    LIKELY,
    Statistic,
    average_precision,
    decided_metrics,
    macro_f1,
    mean_of,
    predicted_classes,
    summarized,
    true_likelihoods,
)
from trainer.metrics.directions import LOWER_IS_BETTER
from trainer.workloads.declarations.labels import Label, Multilabel, Regression

Build = Callable[[np.ndarray, np.ndarray], Statistic]

_TWO_CLASSES = 2


def statistic(metric: str, predictions: np.ndarray, labels: np.ndarray, label: Label) -> Statistic:
    """Return a metric of `comparable` as a function of a draw.

    `predictions` are as `summarized` takes or returns them, `labels` as Workload.parse does.
    """
    predictions = summarized(predictions, labels, label)
    return _builders_for(predictions, label)[metric](predictions, labels)


def measure(
    predictions: np.ndarray, labels: np.ndarray, label: Label, names: Iterable[str] = ()
) -> dict[str, float]:
    """Return metrics of all examples by name, as `statistic` takes them; default: all of them."""
    predictions, every = summarized(predictions, labels, label), np.ones(len(labels), np.int64)
    known = _builders_for(predictions, label)
    return {name: known[name](predictions, labels)(every) for name in names or known}


def comparable(label: Label, num_classes: int) -> tuple[str, ...]:
    """Return the metrics by which models are compared; the first one is the default."""
    return tuple(_builders(label, num_classes))


def comparable_metrics() -> tuple[str, ...]:
    """Return the metrics by which models of any label are compared."""
    kinds = [*_TWO_CLASS, *DECIDED, *_SEVERAL, *_NUMBER]
    return tuple(dict.fromkeys(kinds))


def gain(metric: str, candidate: Any, other: Any) -> Any:
    """Return by how much a metric is better than another one: negative if it is worse."""
    return other - candidate if metric in LOWER_IS_BETTER else candidate - other


def _builders_for(predictions: np.ndarray, label: Label) -> dict[str, Build]:
    return _builders(label, 0 if predictions.ndim == 1 else predictions.shape[1])


def _builders(label: Label, num_classes: int) -> dict[str, Build]:
    if isinstance(label, Regression):
        return _NUMBER
    if isinstance(label, Multilabel):
        return _SEVERAL

    def build(of: Callable[..., Statistic]) -> Build:
        return lambda predictions, labels: of(predicted_classes(predictions, label), labels, label)

    if num_classes != _TWO_CLASSES:
        return {"accuracy": build(_right), "loss": _cross_entropy, "f1": build(macro_f1)}
    decided = {"accuracy": _right, **decided_metrics(label)}
    return {**_TWO_CLASS, **{name: build(of) for name, of in decided.items()}}


def _right(predicted: np.ndarray, labels: np.ndarray, _label: Label) -> Statistic:
    return mean_of(predicted == labels)


def _cross_entropy(predictions: np.ndarray, labels: np.ndarray) -> Statistic:
    likelihoods = true_likelihoods(predictions, labels)
    return mean_of(-np.log(np.maximum(likelihoods, LEAST_LIKELIHOOD)))


def area_statistic(scores: np.ndarray, is_true: np.ndarray) -> Statistic:
    """Return the area under the ROC curve as a function of a draw; ties count half."""
    positives, negatives = np.flatnonzero(is_true), np.flatnonzero(~is_true)
    negatives = negatives[scores[negatives].argsort(kind="stable")]
    ordered = scores[negatives]
    below = ordered.searchsorted(scores[positives], side="left")
    not_above = ordered.searchsorted(scores[positives], side="right")
    has_ties = bool((below != not_above).any())
    cumulated = np.zeros(len(negatives) + 1, np.int64)

    def area(counts: np.ndarray) -> float:
        np.cumsum(counts[negatives], out=cumulated[1:])
        drawn = counts[positives]
        pairs = int(drawn.sum()) * int(cumulated[-1])
        if not pairs:
            return float("nan")
        wins = np.einsum("i,i", drawn, cumulated[below])
        if has_ties:
            wins = (wins + np.einsum("i,i", drawn, cumulated[not_above])) / 2
        return float(wins / pairs)

    return area


def _several_f1(probabilities: np.ndarray, labels: np.ndarray) -> Statistic:
    predicted, truth = probabilities >= LIKELY, labels >= LIKELY
    hits, both = (predicted & truth).astype(float), predicted.astype(float) + truth

    def score(counts: np.ndarray) -> float:
        num_hits, num_either = (np.einsum("i,ij->j", counts, matrix) for matrix in (hits, both))
        return float((2 * num_hits / np.maximum(num_either, 1)).mean())

    return score


def _several_area(probabilities: np.ndarray, labels: np.ndarray) -> Statistic:
    areas = [
        area_statistic(scores, truth)
        for scores, truth in zip(probabilities.T, (labels >= LIKELY).T, strict=True)
        if 0 < truth.sum() < len(truth)
    ]

    def mean(counts: np.ndarray) -> float:
        values = np.array([area(counts) for area in areas])
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else float("nan")

    return mean


def _several_entropy(probabilities: np.ndarray, labels: np.ndarray) -> Statistic:
    likelihoods = np.where(labels >= LIKELY, probabilities, 1 - probabilities).astype(np.float64)
    return mean_of(-np.log(np.maximum(likelihoods, LEAST_LIKELIHOOD)).mean(axis=1))


def _square_error(predictions: np.ndarray, labels: np.ndarray) -> Statistic:
    return mean_of(_errors(predictions, labels) ** 2)


def _root_square_error(predictions: np.ndarray, labels: np.ndarray) -> Statistic:
    square = _square_error(predictions, labels)
    return lambda counts: float(np.sqrt(square(counts)))


def _determination(predictions: np.ndarray, labels: np.ndarray) -> Statistic:
    truth = labels.astype(np.float64) - labels[0]  # small numbers, whose squares are exact
    squares, error = mean_of(truth**2), _square_error(predictions, labels)
    mean = mean_of(truth)

    def value(counts: np.ndarray) -> float:
        spread = squares(counts) - mean(counts) ** 2
        return 1 - error(counts) / spread if spread > 0 else float("nan")

    return value


def _errors(predictions: np.ndarray, labels: np.ndarray) -> Any:
    return predictions.astype(np.float64) - labels.astype(np.float64)


_TWO_CLASS: dict[str, Build] = {
    "auc": lambda probabilities, labels: area_statistic(probabilities[:, 1], labels == 1),
    "loss": _cross_entropy,
    "pr_auc": lambda probabilities, labels: average_precision(probabilities[:, 1], labels == 1),
    "brier": lambda probabilities, labels: mean_of(_errors(probabilities[:, 1], labels) ** 2),
}
_SEVERAL: dict[str, Build] = {
    "f1": _several_f1,
    "accuracy": lambda probabilities, labels: mean_of(
        ((probabilities >= LIKELY) == (labels >= LIKELY)).mean(axis=1)
    ),
    "auc": _several_area,
    "loss": _several_entropy,
}
_NUMBER: dict[str, Build] = {
    "rmse": _root_square_error,
    "mae": lambda predictions, labels: mean_of(np.abs(_errors(predictions, labels))),
    "r2": _determination,
    "loss": _square_error,
}
