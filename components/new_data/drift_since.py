"""Drift of a run's examples since the data of the promoted version."""

import json
from dataclasses import dataclass
from pathlib import Path

from components.model_version.companions import STATISTICS_FILE, read_companion_object
from components.new_data.news import News, short_name
from components.new_data.trigger import COMPARE, NOTHING_NEW, TRAIN, Trigger
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.statistics import anomalies
from components.prepare_examples.statistics.drift import (
    Drift,
    beyond,
    drift_anomalies,
    measure_drift,
    read_baseline,
)
from components.shared.text.json_object import read_object
from trainer import Json
from trainer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Distances of the features from the baseline, the largest first, and the verdict.

    Attributes:
        news: the verdict, TRAIN or NOTHING_NEW, with its reasons.
        baseline: the version that the examples are compared with, "" without one.
        distances: the drift of each feature.
        words: the drift of each feature beyond the threshold, in words.
    """

    news: News
    baseline: str = ""
    distances: tuple[Drift, ...] = ()
    words: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the content of the artifact."""
        drift = [one.to_json() for one in self.distances]
        return json.dumps({"baseline": self.baseline, "drift": drift}, indent=2) + "\n"


def compare(
    examples_dir: str,
    *,
    news: News,
    trigger: Trigger,
    options: PrepareOptions,
    champion: str,
    champion_uri: str,
) -> Comparison:
    """Compare examples with the promoted version's, if a baseline or a trigger requires it.

    Args:
        examples_dir: the prepared dataset.
        news: the verdict of the input.
        trigger: the conditions of training.
        options: the threshold, and the anomalies that fail the run.
        champion: resource name of the version to compare with, "" for no comparison.
        champion_uri: folder of its files.

    Raises:
        DataError: a feature has drifted from the baseline `previous`, and warnings block.
    """
    if not champion:
        return Comparison(news=_trained(news))
    version = short_name(champion)
    problem, before = f"{version} has no statistics of its data", None
    try:
        before = read_companion_object(champion_uri, STATISTICS_FILE, "splits.train.features")
    except InputError as error:
        problem = str(error)
    if before is None:
        reasons = (*news.reasons, problem)
        return Comparison(news=News(verdict=TRAIN, reasons=reasons))
    found = measure_drift(read_baseline(examples_dir), before)
    if options.baseline == PREVIOUS:
        problems = drift_anomalies(found, options.drift_threshold)
        anomalies.check(problems, block_on=options.block_on)
    return Comparison(
        news=_judged(news, found, trigger, version) if news.verdict == COMPARE else news,
        baseline=champion,
        distances=tuple(found),
        words=tuple(one.words for one in beyond(found, options.drift_threshold)),
    )


def train_statistics(examples_dir: str) -> Json:
    """Return the statistics of the train split, which are kept beside the model."""
    content = read_object(Path(examples_dir, STATISTICS_FILE), "splits.train")
    return {**content, "splits": {"train": content["splits"]["train"]}}


def _trained(news: News) -> News:
    """Return the verdict without a comparison: train."""
    return News(verdict=TRAIN, reasons=news.reasons)


def _judged(news: News, found: list[Drift], trigger: Trigger, version: str) -> News:
    """Return the verdict on the feature that drifted most."""
    if not found:
        return News(verdict=TRAIN, reasons=(f"no feature can be compared with {version}",))
    worst = found[0]
    if beyond([worst], trigger.drift):
        reason = f"drift since {version}: PSI {worst.psi:.3f} > {trigger.drift:g} ({worst.words})"
        return News(verdict=TRAIN, reasons=(reason,))
    reason = f"largest drift since {version}: PSI {worst.psi:.3f} of {worst.feature}"
    return News(
        verdict=NOTHING_NEW, reasons=(*news.reasons, f"{reason}, at most {trigger.drift:g}")
    )
