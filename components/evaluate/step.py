"""Evaluation step: metrics, verdict and artifacts of a model."""

import dataclasses
import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from components.endpoint.predict.online_prediction import num_fitting
from components.evaluate.content import evaluation_content
from components.evaluate.gate.baseline import constant
from components.evaluate.gate.checks import check_comparison, check_predictions, check_size
from components.evaluate.gate.comparison import CHAMPION, Comparison, compare
from components.evaluate.gate.options import CONSTANT, NO_BASELINE, GateOptions
from components.evaluate.gate.rivals import find_rivals, find_rules, missing_numbers
from components.evaluate.gate.undefined import find_not_finite, why_undefined
from components.evaluate.held_out import HeldOut, read_held_out
from components.evaluate.report import render_report
from components.evaluate.roc import log_roc, roc_curve
from components.evaluate.thresholds import (
    Check,
    Judgement,
    Limit,
    check_limits,
    check_metrics,
    judge,
    parse_thresholds,
)
from components.model_version.golden import write_golden
from components.new_data.companions import write_data_facts
from components.shared.vertex.resource_name import ResourceName
from trainer import Json
from trainer.config.trust import OWN
from trainer.errors import ConfigError
from trainer.metrics.evaluate import Evaluation, evaluated_names, score
from trainer.metrics.resampling import comparable
from trainer.runtime import tensorflow_logs
from trainer.serving.finite_json import finite

if TYPE_CHECKING:
    from kfp.dsl import ClassificationMetrics, Metrics

    from trainer.serving.export import Predictor

logger = logging.getLogger(__name__)


def evaluate_model(
    *,
    thresholds: str,
    examples_dir: str,
    model_dir: str,
    metrics: "Metrics",
    confusion: "ClassificationMetrics",
    golden_path: str,
    report_path: str,
    evaluation_path: str,
    gate: str = "{}",
    champion_version: str = "",
    champion_uri: str = "",
) -> Judgement:
    """Evaluate a model on the test split, write the artifacts and return the judgement.

    Args:
        thresholds: JSON, such as `{"accuracy": 0.985}`.
        examples_dir: A prepared dataset.
        model_dir: The SavedModel.
        metrics: Receives the metrics and `num_examples`, as metadata and as a JSON file; the file
            also has the rows of several labels at once, or of the deciles of a number.
        confusion: Receives the confusion matrix of classes, as metadata and as a JSON file; for two
            classes also the ROC curve, as metadata.
        golden_path: JSON file for the golden predictions; they are also written beside the model.
        report_path: HTML file for the report.
        evaluation_path: JSON file for everything that a report draws.
        gate: Settings of GateOptions, a JSON object.
        champion_version: Resource name of the version to compare with, "" without one.
        champion_uri: Folder of its model.

    Raises:
        ConfigError: The thresholds or the gate's settings are malformed (checked first), or name an
            unknown metric or feature.
        StepError: No example has a label.
        trainer.errors.InputError: The examples are missing, damaged or another workload's.
    """
    assessed = assess(
        thresholds=thresholds,
        examples_dir=examples_dir,
        model_dir=model_dir,
        gate=gate,
        champion_version=champion_version,
        champion_uri=champion_uri,
    )
    evaluation, held_out, predictor = assessed.evaluation, assessed.held_out, assessed.predictor
    judgement = assessed.judgement
    log_metrics(metrics, evaluation, num_unlabelled=held_out.num_unlabelled)
    log_confusion(confusion, evaluation)
    roc = roc_curve(held_out)
    log_roc(confusion, roc)
    content = evaluation_content(
        evaluation,
        held_out,
        assessed.comparison,
        workload=predictor.workload,
        options=GateOptions.from_json(gate),
        checks=assessed.checks,
        roc=roc,
        champion_version=champion_version,
    )
    _write(evaluation_path, json.dumps(content))
    golden = finite(golden_predictions(held_out, predictor))
    _write(golden_path, json.dumps(golden))
    write_golden(model_dir, golden)
    write_data_facts(model_dir, examples_dir)
    _write(report_path, render_report(predictor.workload.name, content, judgement))
    logger.info("%s: %s", judgement.verdict, "; ".join(judgement.reasons))
    return judgement


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """A model's predictions for the test split, their comparison with others', and the verdict."""

    predictor: "Predictor"
    held_out: HeldOut
    evaluation: Evaluation
    comparison: Comparison
    checks: list[Check]

    @property
    def judgement(self) -> Judgement:
        """The verdict of all checks."""
        return judge(self.checks)


def assess(
    *,
    thresholds: str,
    examples_dir: str,
    model_dir: str,
    gate: str = "{}",
    champion_version: str = "",
    champion_uri: str = "",
) -> Assessment:
    """Predict the test split with a model and its champion, and check the results.

    The arguments and errors are those of `evaluate_model`.
    """
    limits, options = parse_thresholds(thresholds), GateOptions.from_json(gate)
    tensorflow_logs.import_tensorflow()
    from trainer.serving.export import load_predictor

    predictor = load_predictor(model_dir, trust=OWN)
    workload = predictor.workload
    _check_names(limits, options, predictor)
    rules = find_rules(workload, options)
    rivals = find_rivals(workload, options, champion_uri=champion_uri, examples_dir=examples_dir)
    wanted = {name for rule in rules for name in rule.features}
    held_out = read_held_out(examples_dir, predictor, others=rivals.models, columns=wanted)
    held_out, why_broken = without_broken_champion(held_out)
    if options.baseline != NO_BASELINE:
        held_out = _with_constant(held_out)
    if held_out.num_unlabelled:
        logger.warning(
            "%d examples of the test split are left out: their label is missing, or a class that"
            " the train split does not have",
            held_out.num_unlabelled,
        )
    with np.errstate(invalid="ignore"):  # predictions that are not finite fail a check below
        evaluation = score(held_out.predictions, held_out.labels, workload, held_out.compiled)
        numbers = missing_numbers(workload, rules)
        comparison = compare(held_out, options, rules=rules, missing=numbers)
    champion = _in_words(champion_version)
    checks = [
        *check_predictions(held_out),
        *check_limits(
            evaluation.metrics, limits, why_undefined=lambda name: why_undefined(name, held_out)
        ),
        *check_comparison(
            comparison, options, champion=champion, why_not=rivals.why_not or why_broken
        ),
        *check_size(model_dir, options),
    ]
    return Assessment(
        predictor=predictor,
        held_out=held_out,
        evaluation=evaluation,
        comparison=comparison,
        checks=checks,
    )


def _check_names(limits: tuple[Limit, ...], options: GateOptions, predictor: "Predictor") -> None:
    """Raise ConfigError if the model does not have a metric of the thresholds or of the gate."""
    workload, compiled = predictor.workload, predictor.compiled_score()
    own = compiled.results() if compiled is not None else {}
    known = {**evaluated_names(workload), **own}
    check_metrics(limits, known, owner=workload.name)
    allowed = comparable(workload.label, len(workload.labels))
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
    others = dict(held_out.others)
    bad = find_not_finite(others.get(CHAMPION, np.empty(0)))
    if not len(bad):
        return held_out, ""
    why = f"{len(bad):,} of {len(others.pop(CHAMPION)):,} of its predictions are not finite numbers"
    return dataclasses.replace(held_out, others=others), why


def _with_constant(held_out: HeldOut) -> HeldOut:
    best = constant(held_out.labels, held_out.label, len(held_out.names))
    return dataclasses.replace(held_out, others={**held_out.others, CONSTANT: best})


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


def log_metrics(artifact: "Metrics", evaluation: Evaluation, *, num_unlabelled: int = 0) -> None:
    """Write the metrics to the artifact's metadata and file; without the file, no cache hit.

    A metric that is not a number, such as the auc of a split with one class, is left out.
    """
    values: Json = {name: one for name, one in evaluation.metrics.items() if math.isfinite(one)}
    values["num_examples"] = evaluation.num_examples
    if num_unlabelled:
        values["num_unlabelled"] = num_unlabelled
    for name, value in values.items():
        artifact.log_metric(name, value)
    rows = {"by_label": evaluation.by_label, "by_decile": evaluation.by_decile}
    found = {name: finite(one) for name, one in rows.items() if one}
    _write(artifact.path, json.dumps({**values, **found}, indent=2))


def log_confusion(artifact: "ClassificationMetrics", evaluation: Evaluation) -> None:
    """Write the confusion matrix, true classes in rows, to the artifact's metadata and file.

    Without classes only the file is written, with an empty matrix.
    """
    if evaluation.confusion:
        artifact.log_confusion_matrix(evaluation.labels, evaluation.confusion)
    content = {"labels": evaluation.labels, "confusion": evaluation.confusion}
    _write(artifact.path, json.dumps(content))


def _write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
