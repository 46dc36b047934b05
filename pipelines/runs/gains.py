"""Gains of one run's model over another's on the same test examples, with intervals."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.gate.gain import CONFIDENCE, Gain, is_same, measure_gain
from trainer import Json
from trainer.metrics.class_metrics import CHOICE
from trainer.metrics.decision import DEFAULT_THRESHOLD
from trainer.workloads.declarations.labels import Binary, Label, Regression

NO_ANSWERS = "No intervals: an evaluation does not have the predictions of all examples."
OTHER_EXAMPLES = "No intervals: the runs have different test examples."


@dataclass(frozen=True, kw_only=True)
class Gains:
    """Gains of run B over run A by metric, and a sentence on the examples."""

    words: str
    by_metric: dict[str, Gain] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Answers:
    """Labels and predictions of a test split, as `statistic` takes them."""

    label: Label
    labels: NDArray[Any]
    predictions: NDArray[Any]

    @property
    def errors(self) -> NDArray[Any]:
        """The distance of each number from its label; of classes 1 for a mistake."""
        distances = self.label.error_sizes(self.predictions, self.labels)
        return distances if self.label.is_number else np.asarray(distances > 0, float)


def measure_gains(first: Json, second: Json) -> Gains:
    """Return the gains by the metrics of two evaluations that their examples' predictions give."""
    if not (first.get("answers") and second.get("answers")):
        return Gains(words=NO_ANSWERS)
    a, b = _answers(first), _answers(second)
    has_same_names = first.get("labels") == second.get("labels")
    if not (has_same_names and np.array_equal(a.labels, b.labels)):
        return Gains(words=OTHER_EXAMPLES)
    gains = [_gain(name, a, b) for name in b.label.statistics(_num_scores(b))]
    known = {
        gain.metric: gain
        for gain in gains
        if gain.is_defined
        and is_same(first.get("metrics", {}).get(gain.metric), gain.other)
        and is_same(second.get("metrics", {}).get(gain.metric), gain.candidate)
    }
    return Gains(words=_words(a, b), by_metric=known)


def _answers(evaluation: Json) -> _Answers:
    answers = evaluation["answers"]
    labels, predicted = np.array(answers["labels"]), answers["predicted"]
    if evaluation.get("label_kind") == "Regression":
        label: Label = Regression("label")
        return _Answers(label=label, labels=labels, predictions=np.array(predicted, float))
    if scores := answers.get("scores"):
        decision = (evaluation.get("curves") or {}).get("at_threshold") or {}
        label = Binary("label", threshold=decision.get("threshold", DEFAULT_THRESHOLD))
        shares = np.stack([1 - np.array(scores, float), np.array(scores, float)], axis=1)
        return _Answers(label=label, labels=labels, predictions=shares)
    choices = np.zeros(len(labels), CHOICE)
    choices["predicted"], choices["likelihood"] = predicted, 1
    choices["truth"] = np.nan  # a loss is not known
    return _Answers(label=Binary("label"), labels=labels, predictions=choices)


def _num_scores(answers: _Answers) -> int:
    return 0 if answers.predictions.ndim == 1 else answers.predictions.shape[1]


def _gain(metric: str, first: _Answers, second: _Answers) -> Gain:
    candidate, other = (
        model.label.statistic(metric, model.predictions, model.labels) for model in (second, first)
    )
    size = len(second.labels)
    return measure_gain(metric, candidate, other, num_examples=size, confidence=CONFIDENCE)


def _words(first: _Answers, second: _Answers) -> str:
    """Return on how many examples each model is right, or nearer to the label."""
    only_first = int((first.errors < second.errors).sum())
    only_second = int((second.errors < first.errors).sum())
    size, relation = len(first.labels), "right"
    if first.label.is_number:
        relation = "nearer to the label"
    return (
        f"Of {size:,} test examples, only B is {relation} on {only_second:,}, and only A on"
        f" {only_first:,}."
    )
