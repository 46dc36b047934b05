"""Comparison of a run's examples with the data of a version, which `plan_training` carries out."""

import json
from dataclasses import asdict, dataclass

from components.model_version.companions import STATISTICS_FILE, read_companion_object
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.statistics import schema
from components.prepare_examples.statistics.drift import (
    Drift,
    beyond,
    drift_anomalies,
    measure_drift,
    read_baseline,
)
from components.start.news import News, short_name
from components.start.trigger import COMPARE, NOTHING_NEW, TRAIN, Trigger
from trainer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class AskedComparison:
    """A version to compare with, and what for: a trigger, or the baseline `previous`.

    Attributes:
        verdict: of `start`: COMPARE if the drift decides.
        trigger, prepare: parameters of the run, JSON objects.
    """

    version: str
    model_uri: str
    verdict: str
    trigger: str
    prepare: str

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
    trigger, options = Trigger.from_json(asked.trigger), PrepareOptions.from_json(asked.prepare)
    version = short_name(asked.version)
    problem, before = f"{version} has no statistics of its data", None
    try:
        before = read_companion_object(asked.model_uri, STATISTICS_FILE, "splits.train.features")
    except InputError as error:
        problem = str(error)
    if before is None:
        return DataComparison(news=News(verdict=TRAIN, reasons=(problem,)))
    drifts = measure_drift(read_baseline(examples_dir), before)
    if options.baseline == PREVIOUS:
        problems = drift_anomalies(drifts, options.drift_threshold)
        schema.check(problems, block_on=options.block_on)
    is_judged = asked.verdict == COMPARE
    return DataComparison(
        news=judge_drift(drifts, trigger, version) if is_judged else News(verdict=TRAIN),
        baseline=asked.version,
        distances=tuple(drifts),
        words=tuple(drift.words for drift in beyond(drifts, options.drift_threshold)),
    )


def judge_drift(drifts: list[Drift], trigger: Trigger, version: str) -> News:
    """Return the verdict on distances from a version, the largest first."""
    if not drifts:
        return News(verdict=TRAIN, reasons=(f"no feature can be compared with {version}",))
    worst = drifts[0]
    if beyond([worst], trigger.drift):
        reason = f"drift since {version}: PSI {worst.psi:.3f} > {trigger.drift:g} ({worst.words})"
        return News(verdict=TRAIN, reasons=(reason,))
    reason = f"largest drift since {version}: PSI {worst.psi:.3f} of {worst.feature}"
    return News(verdict=NOTHING_NEW, reasons=(f"{reason}, at most {trigger.drift:g}",))
