"""Comparison of a run's examples with the data of a version, which `plan_training` carries out."""

import json
from dataclasses import asdict, dataclass

from components.model_version.companions import STATISTICS_FILE, read_companion_object
from components.prepare_examples.statistics import schema
from components.prepare_examples.statistics.drift import (
    Drift,
    beyond,
    drift_anomalies,
    measure_drift,
    read_baseline,
)
from components.start.news import News, short_name
from components.start.trigger import COMPARE, NOTHING_NEW, TRAIN
from trainer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class AskedComparison:
    """A version to compare with, and what for: a trigger, or the baseline `previous`.

    It has none of the run's other settings, such as its date, which would change the cache key.

    Attributes:
        verdict: of `start`: COMPARE if the drift decides.
        drift: of the trigger.
        is_baseline: true if the data of the version is the baseline of `prepare`.
        drift_threshold, block_on: of `prepare`.
    """

    version: str
    model_uri: str
    verdict: str
    drift: float
    is_baseline: bool
    drift_threshold: float
    block_on: str

    def to_json(self) -> str:
        """Return the output of `start`."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, kw_only=True)
class DataComparison:
    """Distances of the features from the baseline, the largest first, and the verdict.

    Attributes:
        news: the verdict, TRAIN or NOTHING_NEW, with its reasons.
        baseline: the version that the examples are compared with, "" without one.
        words: the drift of each feature beyond the threshold, in words.
    """

    news: News
    baseline: str = ""
    distances: tuple[Drift, ...] = ()
    words: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the content of the artifact."""
        drift = list(map(asdict, self.distances))
        return json.dumps({"baseline": self.baseline, "drift": drift}, indent=2) + "\n"


def compare(examples_dir: str, comparison: str) -> DataComparison:
    """Compare examples with a version's as `comparison` asks; "" asks for nothing.

    Raises:
        DataError: a feature has drifted from the baseline `previous`, and warnings block.
    """
    if not comparison:
        return DataComparison(news=News(verdict=TRAIN))
    asked = AskedComparison(**json.loads(comparison))
    version = short_name(asked.version)
    problem, before = f"{version} has no statistics of its data", None
    try:
        before = read_companion_object(asked.model_uri, STATISTICS_FILE, "splits.train.features")
    except InputError as error:
        problem = str(error)
    if before is None:
        return DataComparison(news=News(verdict=TRAIN, reasons=(problem,)))
    drifts = measure_drift(read_baseline(examples_dir), before)
    if asked.is_baseline:
        problems = drift_anomalies(drifts, asked.drift_threshold)
        schema.check(problems, block_on=asked.block_on)
    is_judged = asked.verdict == COMPARE
    return DataComparison(
        news=judge_drift(drifts, asked.drift, version) if is_judged else News(verdict=TRAIN),
        baseline=asked.version,
        distances=tuple(drifts),
        words=tuple(drift.words for drift in beyond(drifts, asked.drift_threshold)),
    )


def judge_drift(drifts: list[Drift], most: float, version: str) -> News:
    """Return the verdict on distances from a version, the largest first; more than `most` train."""
    if not drifts:
        return News(verdict=TRAIN, reasons=(f"no feature can be compared with {version}",))
    worst = drifts[0]
    if beyond([worst], most):
        reason = f"drift since {version}: PSI {worst.psi:.3f} > {most:g} ({worst.words})"
        return News(verdict=TRAIN, reasons=(reason,))
    reason = f"largest drift since {version}: PSI {worst.psi:.3f} of {worst.feature}"
    return News(verdict=NOTHING_NEW, reasons=(f"{reason}, at most {most:g}",))
