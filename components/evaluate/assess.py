"""Assessment of a model: predictions of the test split, comparisons, and checks."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from components.endpoint.predict.parity import num_fitting
from components.evaluate.case import Case
from components.evaluate.folds import OutOfFold, held_out_by_folds
from components.evaluate.gate.checks import check_comparison, check_predictions, check_size
from components.evaluate.gate.comparison import CHAMPION, Comparison, compare
from components.evaluate.gate.folds import compare_folds
from components.evaluate.gate.options import GateOptions
from components.evaluate.gate.rivals import find_rivals, find_rules, missing_numbers
from components.evaluate.gate.undefined import check_classes, why_undefined
from components.evaluate.held_out import HeldOut, read_held_out
from components.evaluate.importance import measure_importance
from components.evaluate.leaks import check_leaks
from components.evaluate.thresholds import (
    Check,
    Judgement,
    Limit,
    check_limits,
    check_metrics,
    judge,
    parse_thresholds,
)
from components.shared.vertex.resource_name import ResourceName
from trainer import Json
from trainer.config.trust import OWN
from trainer.errors import ConfigError
from trainer.metrics.class_metrics import find_not_finite
from trainer.metrics.evaluation import Evaluation
from trainer.runtime import tensorflow_logs

if TYPE_CHECKING:  # it imports TensorFlow
    from trainer.serving.export import Predictor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """A model's predictions for the test split, their comparison with others', and the verdict.

    `judged` are the rows of folds, with the metrics `by_folds`, or else the test split and none.
    """

    case: Case
    predictor: "Predictor"
    held_out: HeldOut
    evaluation: Evaluation
    judged: HeldOut
    by_folds: Mapping[str, float]
    comparison: Comparison
    checks: list[Check]
    importance: Sequence[Json] = ()

    @property
    def judgement(self) -> Judgement:
        """The verdict of all checks."""
        return judge(self.checks)


def assess(case: Case, out_of_fold: OutOfFold | None = None) -> Assessment:
    """Predict the test split with a model and its champion, and check the results.

    Predictions of folds are compared and checked instead, if there are any.

    Raises:
        ConfigError: The thresholds or the gate's settings are malformed (checked first), or name an
            unknown metric or feature.
        StepError: No example has a label.
        trainer.errors.InputError: The examples are missing, damaged or another workload's.
    """
    limits, options = parse_thresholds(case.thresholds), case.options
    tensorflow_logs.import_tensorflow()
    from trainer.serving.export import load_predictor

    predictor = load_predictor(case.model_dir, trust=OWN)
    workload = predictor.workload
    _check_names(limits, options, predictor)
    rules = find_rules(workload, options)
    rivals = find_rivals(predictor, options, champion=case.champion, examples_dir=case.examples_dir)
    wanted = {name for rule in rules for name in rule.features}
    held_out = read_held_out(case.examples_dir, predictor, rivals=rivals.models, columns=wanted)
    held_out = dataclasses.replace(held_out, rival_labels=rivals.labels)
    held_out, why_broken = without_broken_champion(held_out)
    if held_out.num_unlabelled:
        logger.warning(
            "%d examples of the test split are left out: their label is missing, or a class that"
            " the train split does not have",
            held_out.num_unlabelled,
        )
    with np.errstate(invalid="ignore"):  # predictions that are not finite fail a check below
        evaluation = held_out.score()
        cut: Json = {"rules": rules, "missing": missing_numbers(workload, rules)}
        comparison = compare(held_out, options, **cut)
        judged, by_folds, uri = held_out, dict[str, float](), case.champion.model_uri
        if out_of_fold:
            judged = held_out_by_folds(out_of_fold, predictor, held_out)
            metrics = judged.score().metrics
            by_folds = {name: metrics[name] for name in metrics if name not in held_out.compiled}
            comparison = compare_folds(judged, comparison, options, champion_uri=uri, **cut)
        importance = measure_importance(
            case.examples_dir, predictor, metric=comparison.metric, confidence=options.confidence
        )
    champion = _in_words(case.champion.version)
    checks = [
        *check_predictions(held_out),
        *check_classes(held_out, case.examples_dir),
        *check_leaks(case.examples_dir, workload, evaluation.metrics | by_folds),
        *check_limits(
            evaluation.metrics | by_folds,
            limits,
            why_undefined=lambda m: why_undefined(m, judged if m in by_folds else held_out),
            bases=dict.fromkeys(by_folds, judged.basis),
        ),
        *check_comparison(
            comparison, options, champion=champion, why_not=rivals.why_not or why_broken
        ),
        *check_size(case.model_dir, options),
    ]
    return Assessment(
        case=case,
        predictor=predictor,
        held_out=held_out,
        evaluation=evaluation,
        comparison=comparison,
        importance=importance,
        checks=checks,
        judged=judged,
        by_folds=by_folds,
    )


def _check_names(limits: tuple[Limit, ...], options: GateOptions, predictor: "Predictor") -> None:
    """Raise ConfigError if the model does not have a metric of the thresholds or of the gate."""
    workload, compiled = predictor.workload, predictor.compiled_score()
    own = compiled.results() if compiled is not None else {}
    known = [*workload.evaluated_metrics, *own]
    check_metrics(limits, known, owner=workload.name)
    allowed = workload.label.statistics(len(workload.labels))
    if options.metric and options.metric not in allowed:
        raise ConfigError(
            f"gate.metric is {options.metric!r}, which {workload.name} does not have; allowed are"
            f" {', '.join(allowed)}"
        )


def _in_words(version: str) -> str:
    return (
        f"version {ResourceName.from_version_name(version).version}" if version else "the default"
    )


def without_broken_champion(held_out: HeldOut) -> tuple[HeldOut, str]:
    """Drop the champion if it predicts a NaN or an infinity; return why, or ""."""
    rivals = dict(held_out.rivals)
    bad = find_not_finite(rivals.get(CHAMPION, np.empty(0)))
    if not len(bad):
        return held_out, ""
    why = f"{len(bad):,} of {len(rivals.pop(CHAMPION)):,} of its predictions are not finite numbers"
    return dataclasses.replace(held_out, rivals=rivals), why


def golden_predictions(held_out: HeldOut, predictor: "Predictor") -> Json:
    """Return instances, their offline predictions and true labels, to check a deployed model.

    All fit into one request. The serving predictor predicts the very instances that are sent to
    the deployed model, and unlike a server returns predictions that are not finite.
    """
    instances = [held_out.instance(index) for index in held_out.golden]
    instances = instances[: max(1, num_fitting(instances))]
    features = predictor.workload.parse_instances(instances)
    return {
        "instances": instances,
        "predictions": predictor.predictions_of(predictor.predict_batch(features)),
        "labels": [held_out.true_label(index) for index in held_out.golden[: len(instances)]],
    }
