"""Comparison of the statistics of two sets of instances: distances, limits and words."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from components.endpoint.watch.instances import PREDICTION
from components.endpoint.watch.options import PIXELS, PSI
from components.prepare_examples.statistics.drift import drift_of, psi, shares_of
from trainer import Json

TRAINING, BEFORE = "training", "before"
NOT_FINITE = "not_finite"
NUM_DRAWS = 1000
SEED = 20261122


@dataclass(frozen=True, kw_only=True)
class FeatureFinding:
    """The comparison of one feature.

    Attributes:
        against: TRAINING or BEFORE, the requests before these.
        distance: name of its distance: psi, pixels or not_finite.
        limit: the threshold, or what chance explains if that is more.
        words: the value whose share changed most.
    """

    feature: str
    against: str
    distance: str
    value: float
    limit: float
    words: str

    @property
    def is_ok(self) -> bool:
        """True if the distance is within its limit."""
        return self.value <= self.limit

    @property
    def verdict(self) -> str:
        """The result in one word: ok, skew (from the training data) or drift (over time)."""
        if self.is_ok:
            return "ok"
        return "skew" if self.against == TRAINING else "drift"

    def to_json(self) -> Json:
        """Return a plain dict."""
        return {**asdict(self), "verdict": self.verdict}


def compare(
    before: Json, after: Json, *, against: str, thresholds: Mapping[str, float]
) -> list[FeatureFinding]:
    """Return a finding for each feature of two splits' statistics, the largest distance first.

    A distance is beyond its limit if it exceeds the threshold and also the distance that chance
    explains between two samples of these sizes: few requests differ from many examples by chance.
    Predictions are compared with each other only: the classes that a model predicts need not have
    the shares of the true ones.
    """
    findings = []
    for name, feature in after["features"].items():
        other = before["features"].get(name)
        is_comparable = other is not None and other["type"] == feature["type"]
        if is_comparable and not (name == PREDICTION and against == TRAINING):
            findings.append(_of_feature(name, other, feature, against, thresholds[PSI]))
    if PIXELS in before and PIXELS in after:
        findings += _of_pixels(before[PIXELS], after[PIXELS], against, thresholds[PIXELS])
    return sorted(findings, key=lambda finding: (-finding.value / finding.limit, finding.feature))


def not_finite(num_predictions: int, num_instances: int) -> FeatureFinding:
    """Return the finding of predictions that are not finite numbers, of which none is allowed."""
    return FeatureFinding(
        feature=PREDICTION,
        against=TRAINING,
        distance=NOT_FINITE,
        value=num_predictions / num_instances,
        limit=0.0,
        words=f"{num_predictions:,} predictions are not finite numbers",
    )


def _of_feature(
    name: str, before: Json, after: Json, against: str, threshold: float
) -> FeatureFinding:
    shares = shares_of(before, after)
    drift = drift_of(name, shares)
    p, q = (np.array([share[at] for share in shares]) for at in (1, 2))
    chance = psi_by_chance(p, q, sizes=(_size(before), _size(after)))
    return FeatureFinding(
        feature=name,
        against=against,
        distance=PSI,
        value=drift.psi,
        limit=max(threshold, chance),
        words=drift.words.removeprefix(f"{name}: "),
    )


def psi_by_chance(before: np.ndarray, after: np.ndarray, *, sizes: tuple[int, int]) -> float:
    """Return the index that 1 of 1,000 pairs of samples of one distribution exceeds.

    The distribution is the one of both samples together; `before` and `after` are shares of values.
    """
    num_before, num_after = sizes
    pooled = (num_before * before + num_after * after) / (num_before + num_after)
    pooled /= pooled.sum()
    random = np.random.default_rng(SEED)
    draws = [random.multinomial(size, pooled, NUM_DRAWS) / size for size in sizes]
    return float(psi(*draws).max())


def _size(feature: Json) -> int:
    return max(int(feature["num_present"] + feature["num_missing"]), 1)


def _of_pixels(before: Json, after: Json, against: str, limit: float) -> Iterator[FeatureFinding]:
    """Yield a finding for each channel.

    Its distance is the change of the mean, in standard deviations, or of the logarithm of the
    standard deviation, whichever is larger.
    """
    for channel, (mean, std) in enumerate(zip(before["mean"], before["std"], strict=True)):
        new_mean, new_std = after["mean"][channel], after["std"][channel]
        scale = np.maximum(std, 1.0)
        new_scale = np.maximum(new_std, 1.0)
        changes = (abs(new_mean - mean) / scale, abs(np.log(new_scale) - np.log(scale)))
        change = float(np.max(changes))  # not max, which may drop a NaN
        words = f"mean {mean:.1f} → {new_mean:.1f}, deviation {std:.1f} → {new_std:.1f}"
        name = "image" if len(before["mean"]) == 1 else f"image, channel {channel}"
        yield FeatureFinding(
            feature=name, against=against, distance=PIXELS, value=change, limit=limit, words=words
        )
