"""Gain of one model over another on the same examples, with a paired bootstrap interval."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trainer import Json
from trainer.metrics.class_metrics import Statistic
from trainer.metrics.resampling import gain

NUM_DRAWS = 1000
# Enough for a standard deviation; a slice's interval needs no more.
NUM_SLICE_DRAWS = 100
# From here on a normal interval and one of percentiles differ by less than chance does.
MANY_EXAMPLES = 50_000
SEED = 20_240_607


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A metric of two models, and by how much the candidate is better: negative if it is worse.

    `low` and `high` are the ends of the interval of the difference, NaN if the metric is defined in
    no draw, such as the auc of one class. `undefined` says why there is no gain, `basis` on which
    examples, as HeldOut has it.
    """

    metric: str
    candidate: float
    other: float
    confidence: float
    low: float = math.nan
    high: float = math.nan
    undefined: str = ""
    num_examples: int = 0
    basis: str = ""

    @property
    def is_defined(self) -> bool:
        """True if the metrics of both models and the ends of the interval are finite."""
        return all(map(math.isfinite, (self.candidate, self.other, self.low, self.high)))

    @property
    def difference(self) -> float:
        """The gain of the candidate, whichever direction of the metric is better."""
        return float(gain(self.metric, self.candidate, self.other))

    def to_json(self) -> Json:
        """Return the gain for evaluation.json."""
        names = ("metric", "difference", "low", "high", "confidence", "basis")
        return {name: getattr(self, name) for name in names}


def measure_gain(
    metric: str, candidate: Statistic, other: Statistic, *, num_examples: int, confidence: float
) -> Gain:
    """Return the gain with the percentile interval of draws of the examples, with replacement.

    Both models are measured on the same draws, so examples that are difficult for both cancel out.
    The draws depend on the number of examples only. Many examples have a normal interval.
    """
    if num_examples > MANY_EXAMPLES:
        return measure_slice_gain(
            metric, candidate, other, num_examples=num_examples, confidence=confidence
        )
    gain = _without_interval(metric, candidate, other, num_examples, confidence)
    differences = _differences(metric, candidate, other, num_examples, NUM_DRAWS)
    if not len(differences):
        return gain
    ends = (1 - confidence) / 2
    low, high = map(float, np.quantile(differences, [ends, 1 - ends]))
    return replace(gain, low=low, high=high)


def measure_slice_gain(
    metric: str, candidate: Statistic, other: Statistic, *, num_examples: int, confidence: float
) -> Gain:
    """Return the gain with a normal interval, whose confidence may be near 1.

    Among many slices one seems worse by chance, so each has a higher confidence than all together.
    """
    gain = _without_interval(metric, candidate, other, num_examples, confidence)
    differences = _differences(metric, candidate, other, num_examples, NUM_SLICE_DRAWS)
    if not len(differences):
        return gain
    half = NormalDist().inv_cdf((1 + confidence) / 2) * float(differences.std())
    return replace(gain, low=gain.difference - half, high=gain.difference + half)


def _without_interval(
    metric: str, candidate: Statistic, other: Statistic, num_examples: int, confidence: float
) -> Gain:
    every = np.ones(num_examples, np.int64)
    return Gain(
        metric=metric,
        candidate=candidate(every),
        other=other(every),
        confidence=confidence,
        num_examples=num_examples,
    )


def _differences(
    metric: str, candidate: Statistic, other: Statistic, num_examples: int, num_draws: int
) -> NDArray[np.float64]:
    random = np.random.Generator(np.random.SFC64(SEED))  # the fastest one
    differences = np.empty(num_draws)
    # Allocated once: new memory pages in each draw would cost more time than the numbers.
    places, drawn = np.empty(num_examples), np.empty(num_examples, np.int64)
    for at in range(num_draws):
        random.random(out=places)
        places *= num_examples
        drawn[:] = places
        counts = np.bincount(drawn, minlength=num_examples).astype(np.uint8)
        differences[at] = gain(metric, candidate(counts), other(counts))
    return differences[np.isfinite(differences)]
