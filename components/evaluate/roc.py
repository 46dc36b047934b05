"""ROC curve of a binary classifier."""

from dataclasses import dataclass

import numpy as np

from components.evaluate.held_out import HeldOut
from trainer.workloads.declarations.labels import Binary, Classes

NUM_CLASSES = 2
NUM_POINTS = 100


@dataclass(frozen=True)
class RocCurve:
    """Points from (0, 0) to (1, 1): false and true positive rates of the second class."""

    false_positive: list[float]
    true_positive: list[float]
    thresholds: list[float]


def roc_curve(held_out: HeldOut) -> RocCurve | None:
    """Return the curve at 100 quantiles of the scores.

    None unless both of two classes occur and all scores are finite.
    """
    if not isinstance(held_out.label, Binary | Classes) or len(held_out.names) != NUM_CLASSES:
        return None
    labels, scores = held_out.labels.astype(bool), held_out.predictions[:, 1]
    if labels.all() or not labels.any() or not np.isfinite(scores).all():
        return None
    thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, NUM_POINTS), method="nearest"))
    taken = [
        [np.mean(scores[is_class] >= limit) for limit in thresholds[::-1]]
        for is_class in (~labels, labels)
    ]
    return RocCurve(
        false_positive=[0.0, *map(float, taken[0])],
        true_positive=[0.0, *map(float, taken[1])],
        thresholds=[1.0, *map(float, thresholds[::-1])],
    )
