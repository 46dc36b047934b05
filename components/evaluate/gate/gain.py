"""Gain of one model over another on the same examples, with a paired bootstrap interval."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from components.evaluate.thresholds import format_metric
from trainer import Json
from trainer.metrics.statistics import Statistic, gain, of_all

CONFIDENCE = 0.95  # of intervals for which no setting gives another one
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

    @property
    def is_sure(self) -> bool:
        """True if the interval is wholly above or below zero."""
        return self.low > 0 or self.high < 0

    @property
    def words(self) -> str:
        """`surely worse by 0.0011 to 0.0044 (95 % interval)`, or that it is not sure."""
        relation = "worse" if self.difference < 0 else "better"
        interval = f"{self.confidence * 100:.4g} % interval"
        if not self.is_sure:
            ends = f"{_signed(self.low)} to {_signed(self.high)}"
            return f"not surely {relation} ({interval} {ends})"
        least, most = sorted((abs(self.low), abs(self.high)))
        return f"surely {relation} by {format_metric(least)} to {format_metric(most)} ({interval})"

    def to_json(self) -> Json:
        """Return the gain for evaluation.json."""
        names = ("metric", "difference", "low", "high", "confidence", "basis", "words")
        return {name: getattr(self, name) for name in names}


def measure_gain(
    metric: str,
    candidate: Statistic,
    other: Statistic,
    *,
    num_examples: int,
    confidence: float,
    is_slice: bool = False,
) -> Gain:
    """Return the gain with the percentile interval of draws of the examples, with replacement.

    Both models are measured on the same draws, so examples that are difficult for both cancel out.
    The draws depend on the number of examples only. Many examples have a normal interval, and so
    has a slice, whose confidence may be near 1: among many slices one seems worse by chance, so
    each has a higher confidence than all together.
    """
    measured = Gain(
        metric=metric,
        candidate=of_all(candidate, num_examples),
        other=of_all(other, num_examples),
        confidence=confidence,
        num_examples=num_examples,
    )
    is_normal = is_slice or num_examples > MANY_EXAMPLES
    draws = _draws(num_examples, NUM_SLICE_DRAWS if is_normal else NUM_DRAWS)
    drawn = np.array([gain(metric, candidate(counts), other(counts)) for counts in draws])
    finite, difference = drawn[np.isfinite(drawn)], measured.difference
    if not len(finite):
        return measured
    if is_normal:
        half = NormalDist().inv_cdf((1 + confidence) / 2) * float(finite.std())
        return replace(measured, low=difference - half, high=difference + half)
    ends = (1 - confidence) / 2
    low, high = map(float, np.quantile(finite, [ends, 1 - ends]))
    # Of a skewed metric the draws may all be on one side of what was measured.
    return replace(measured, low=min(low, difference), high=max(high, difference))


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + format_metric(value)


def is_same(known: float | None, value: float) -> bool:
    """Return True if an evaluation's metric is this one; Keras may compute it by other rules."""
    return known is not None and math.isclose(known, value, rel_tol=1e-3, abs_tol=1e-6)


def measure_intervals(
    statistics: Mapping[str, Statistic], *, num_examples: int, confidence: float
) -> dict[str, tuple[float, float]]:
    """Return the normal interval of each metric of one model; none of one that is not finite."""
    values = {name: of_all(value, num_examples) for name, value in statistics.items()}
    drawn: dict[str, list[float]] = {name: [] for name in statistics}
    for counts in _draws(num_examples, NUM_SLICE_DRAWS):
        for name, value in statistics.items():
            drawn[name].append(value(counts))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    halves = {name: z * float(np.std(metrics)) for name, metrics in drawn.items()}
    return {
        name: (value - halves[name], value + halves[name])
        for name, value in values.items()
        if math.isfinite(value + halves[name])
    }


def _draws(num_examples: int, num_draws: int) -> Iterator[NDArray[np.uint8]]:
    """Yield how often each example is drawn."""
    random = np.random.Generator(np.random.SFC64(SEED))  # the fastest one
    # Allocated once: new memory pages in each draw would cost more time than the numbers.
    places, drawn = np.empty(num_examples), np.empty(num_examples, np.int64)
    for _ in range(num_draws):
        random.random(out=places)
        places *= num_examples
        drawn[:] = places
        yield np.bincount(drawn, minlength=num_examples).astype(np.uint8)
