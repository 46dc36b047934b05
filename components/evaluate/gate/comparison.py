"""Comparison of a trained model with the champion and with simple models."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from components.evaluate.gate.gain import Gain, measure_gain
from components.evaluate.gate.options import CONSTANT, GateOptions
from components.evaluate.gate.slice_rules import Rule, cut
from components.evaluate.gate.undefined import why_undefined
from components.evaluate.held_out import HeldOut
from trainer.metrics.statistics import of_all

CHAMPION = "champion"


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A part of the test split, and the models' metric on it.

    `gain` is None without a champion. `undefined` says why the metric is not defined here.
    """

    rule: str
    value: str
    num_examples: int
    candidate: float
    gain: Gain | None = None
    undefined: str = ""

    @property
    def name(self) -> str:
        """The slice in words: `payment_type Cash`."""
        return f"{self.rule} {self.value}".strip()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Gains of a trained model over others on the test split, by one metric.

    Attributes:
        champion: Gain over the champion, if it could predict the examples.
        slices: Parts of the test split with enough examples.
        small: Rules of which no slice has enough examples.
    """

    metric: str
    champion: Gain | None = None
    baseline: Gain | None = None
    baseline_name: str = ""
    slices: Sequence[Slice] = field(default_factory=tuple)
    small: Sequence[str] = ()


def compare(
    held_out: HeldOut, options: GateOptions, *, rules: Sequence[Rule], missing: Mapping[str, Any]
) -> Comparison:
    """Return the comparison with the `rivals` of the examples: a champion or simple models.

    The examples have the predictions of these models, and the columns of the rules. `missing`
    has the number that stands for a missing value, by feature.
    """
    metric = options.metric or held_out.label.default_metric(len(held_out.names))
    gains = {
        name: measure_gain(
            metric,
            held_out.statistic(metric),
            held_out.statistic(metric, name),
            num_examples=len(held_out.labels),
            confidence=options.confidence,
        )
        for name in held_out.rivals
    }
    gains = {
        name: replace(
            gain,
            basis=held_out.basis,
            undefined="" if gain.is_defined else why_undefined(metric, held_out),
        )
        for name, gain in gains.items()
    }
    champion = gains.pop(CHAMPION, None)
    # The best simple model is the one with the least gain over it; the constant must be beaten.
    ranks = {name: gain.difference if gain.is_defined else math.inf for name, gain in gains.items()}
    best = min(gains, key=lambda name: (ranks[name], name != CONSTANT), default="")
    slices = list(_slices(metric, held_out, options, rules=rules, missing=missing))
    large = {part.rule for part in slices}
    return Comparison(
        metric=metric,
        champion=champion,
        baseline=gains.get(best),
        baseline_name=best,
        slices=slices,
        small=[rule.text for rule in rules if rule.text not in large],
    )


def _slices(
    metric: str,
    held_out: HeldOut,
    options: GateOptions,
    *,
    rules: Sequence[Rule],
    missing: Mapping[str, Any],
) -> Iterator[Slice]:
    masks = {
        (rule.text, value): np.flatnonzero(mask)
        for rule in rules
        for value, mask in cut(rule, held_out.columns, missing).items()
        if mask.sum() >= options.slice_min_examples
    }
    # Bonferroni: each interval gets a confidence with which all hold at options.confidence.
    confidence = 1 - (1 - options.confidence) / max(len(masks), 1)
    for (rule, value), rows in masks.items():
        candidate = held_out.statistic(metric, rows=rows)
        gain = None
        if CHAMPION in held_out.rivals:
            champion = held_out.statistic(metric, CHAMPION, rows)
            gain = measure_gain(
                metric,
                candidate,
                champion,
                num_examples=len(rows),
                confidence=confidence,
                is_slice=True,
            )
        value_here = gain.candidate if gain else of_all(candidate, len(rows))
        is_defined = gain.is_defined if gain else math.isfinite(value_here)
        yield Slice(
            rule=rule,
            value=value,
            num_examples=len(rows),
            candidate=value_here,
            gain=gain,
            undefined=""
            if is_defined
            else why_undefined(metric, held_out, rows, examples="the slice"),
        )
