"""Calibration and threshold of a classifier, both chosen on the eval split."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from trainer.metrics.statistics import LEAST_LIKELIHOOD

logger = logging.getLogger(__name__)

DEFAULT_THRESHOLD = 0.5
COSTS = ("missed", "false_alarm")
# Fewer examples cannot tell whether a temperature lowers the loss.
MIN_EXAMPLES = 100
MAX_EXAMPLES, MAX_VALUES = 20_000, 2_000_000
# Standard errors by which the loss must fall on examples that the temperature was not fitted to.
_SURE = 2.0
_NUM_HALVINGS = 24  # to 8 digits
_INVERSES = (0.2, 5.0)  # range of 1 / temperature


@dataclass(frozen=True, kw_only=True)
class DecisionRule:
    """Step from what a net predicts to the predictions of a model.

    Attributes:
        net_share: the share of the net in a model that has a line beside it.
        line_loss: of the line alone on the eval split; NaN without a line.
        temperature: the logarithms of the probabilities are divided by it: above 1 for a model that
            is too sure; 1 if no other value surely lowers the loss.
        threshold: the least probability of the second of two classes from which it is predicted.
        loss_before, loss_after: on the eval split, without and with the temperature; NaN if not
            measured.
    """

    net_share: float = 1.0
    line_loss: float = float("nan")
    temperature: float = 1.0
    threshold: float = DEFAULT_THRESHOLD
    loss_before: float = float("nan")
    loss_after: float = float("nan")

    @property
    def is_calibrated(self) -> bool:
        """True if the temperature changes the probabilities."""
        return self.temperature != 1


def sampled(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return as many of the probabilities and labels of batches as `decide` should get.

    They are every first, second, fourth … example of the split, MAX_EXAMPLES at most, or, of many
    classes, MAX_VALUES probabilities.
    """
    kept, every, num_examples = list[tuple[np.ndarray, np.ndarray]](), 1, 0
    for probabilities, labels in batches:
        rows = slice(-num_examples % every, None, every)
        kept.append((np.ascontiguousarray(probabilities[rows]), labels[rows]))
        num_examples += len(labels)
        most = min(MAX_EXAMPLES, max(MIN_EXAMPLES, MAX_VALUES // probabilities.shape[1]))
        while num_examples > most * every:
            likely, truth = map(np.concatenate, zip(*kept, strict=True))
            kept, every = [(likely[::2].copy(), truth[::2])], 2 * every
    likely, truth = map(np.concatenate, zip(*kept, strict=True))
    return likely, truth


def decide(
    probabilities: np.ndarray,
    truth: np.ndarray,
    *,
    threshold: float | None,
    cost: Mapping[str, float],
) -> DecisionRule:
    """Return the decision for some probabilities [examples, classes] of the eval split.

    Without a threshold it is the one with the least cost or, without costs, the best F1.
    """
    logs = np.log(np.maximum(probabilities.astype(np.float64), LEAST_LIKELIHOOD))
    inverse = _fit_sure_inverse(logs, truth)
    powers = np.exp(_scaled(logs, inverse))
    decision = DecisionRule(
        temperature=float(f"{1 / inverse:.4g}"),
        threshold=_best_threshold(powers, truth, cost) if threshold is None else threshold,
        loss_before=float(_losses(logs, truth, 1.0).mean()),
        loss_after=float(_losses(logs, truth, inverse).mean()),
    )
    if decision.is_calibrated:
        logger.info(
            "the probabilities are calibrated: temperature %g lowers the loss on the eval split"
            " from %.4f to %.4f",
            decision.temperature,
            decision.loss_before,
            decision.loss_after,
        )
    return decision


def _fit_sure_inverse(logs: np.ndarray, labels: np.ndarray) -> float:
    """Return 1 / temperature, 1 unless each half's value lowers the loss of the other half."""
    if len(labels) < MIN_EXAMPLES or not np.isfinite(logs).all():
        return 1.0
    halves = [np.arange(len(labels)) % 2 == number for number in (0, 1)]
    gains = np.concatenate(
        [
            _losses(logs[half], labels[half], 1.0)
            - _losses(logs[half], labels[half], _fit_inverse(logs[~half], labels[~half]))
            for half in halves
        ]
    )
    is_sure = gains.mean() > _SURE * gains.std() / np.sqrt(len(gains))
    return _fit_inverse(logs, labels) if is_sure else 1.0


def _fit_inverse(logs: np.ndarray, labels: np.ndarray) -> float:
    """Return the factor of the log probabilities with the least mean cross-entropy.

    The loss is convex in it, so bisection finds where its slope changes its sign. The doubt of one
    example keeps it finite where no example is wrong.
    Guo et al., "On calibration of modern neural networks", 2017; Platt, "Probabilistic outputs for
    support vector machines", 1999.
    """
    low, high = _INVERSES
    doubt = 2 / (len(labels) + 2)
    true = (1 - doubt) * logs[np.arange(len(labels)), labels] + doubt * logs.mean(axis=1)
    for _ in range(_NUM_HALVINGS):
        middle = np.sqrt(low * high)
        slope = ((np.exp(_scaled(logs, middle)) * logs).sum(axis=1) - true).mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return float(middle)


def _scaled(logs: np.ndarray, inverse: float) -> np.ndarray:
    scaled = logs * inverse
    scaled -= scaled.max(axis=1, keepdims=True)
    return np.asarray(scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True)))


def _losses(logs: np.ndarray, labels: np.ndarray, inverse: float) -> np.ndarray:
    return np.asarray(-_scaled(logs, inverse)[np.arange(len(labels)), labels])


def _best_threshold(
    probabilities: np.ndarray, labels: np.ndarray, cost: Mapping[str, float]
) -> float:
    wanted = "cost" if cost else "F1"
    if not 0 < labels.sum() < len(labels):
        logger.warning(
            "the threshold stays at %g: all examples of the eval split are of one class, so none"
            " has the best %s",
            DEFAULT_THRESHOLD,
            wanted,
        )
        return DEFAULT_THRESHOLD
    chosen = _find_threshold(probabilities[:, 1], labels == 1, cost)
    logger.info("the threshold with the best %s on the eval split is %g", wanted, chosen)
    return chosen


def _find_threshold(scores: np.ndarray, is_true: np.ndarray, cost: Mapping[str, float]) -> float:
    """Return the threshold halfway between two scores with the least cost, or else the best F1."""
    order = (-scores).argsort(kind="stable")
    ordered, hits = scores[order], np.cumsum(is_true[order])
    ends = np.flatnonzero(np.diff(ordered, append=-1.0))
    num_predicted, num_hits, num_true = ends + 1, hits[ends], hits[-1]
    if cost:
        missed, false_alarm = (cost[name] for name in COSTS)
        value = -(missed * (num_true - num_hits) + false_alarm * (num_predicted - num_hits))
        # Without any alarm every true one is missed: the threshold is above all scores.
        if value.max() < -missed * num_true:
            return float((ordered[0] + 1) / 2)
    else:
        value = 2 * num_hits / (num_predicted + num_true)
    best = ends[value.argmax()]
    below = ordered[best + 1] if best + 1 < len(ordered) else 0.0
    return float(f"{(ordered[best] + below) / 2:.6g}")
