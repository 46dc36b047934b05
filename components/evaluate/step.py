"""The step: evaluates a model, judges it, and writes the artifacts."""

import json
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING

from components.evaluate.held_out import HeldOut, read_held_out
from components.evaluate.report import render_report
from components.evaluate.roc import log_roc, roc_curve
from components.evaluate.thresholds import Judgement, check_metrics, judge, parse_thresholds
from components.model_version.golden import write_golden
from trainer.json_types import Json
from trainer.runtime import tensorflow_logs
from trainer.serving.evaluate import Evaluation, Row, metric_names, score

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

    Raises:
        ConfigError: The thresholds are malformed (checked first), or name an unknown metric.
        StepError: No example has a label.
        trainer.errors.InputError: The examples are missing, damaged or another workload's.
    """
    limits = parse_thresholds(thresholds)
    tensorflow_logs.import_tensorflow()
    from trainer.serving.export import load_predictor

    predictor = load_predictor(model_dir)
    workload = predictor.workload
    check_metrics(limits, metric_names(workload), owner=workload.name)
    held_out = read_held_out(examples_dir, predictor)
    if held_out.num_unlabelled:
        logger.warning(
            "%d examples of the test split are left out: their label is missing, or a class that"
            " the train split does not have",
            held_out.num_unlabelled,
        )
    evaluation = score(held_out.predictions, held_out.labels, workload)
    judgement = judge(evaluation.metrics, limits)
    log_metrics(metrics, evaluation, num_unlabelled=held_out.num_unlabelled)
    log_confusion(confusion, evaluation)
    roc = roc_curve(held_out)
    log_roc(confusion, roc)
    golden = golden_predictions(held_out, predictor)
    _write(golden_path, json.dumps(golden))
    write_golden(model_dir, golden)
    page = render_report(workload.name, evaluation, judgement, held_out=held_out, roc=roc)
    _write(report_path, page)
    logger.info("%s: %s", judgement.verdict, "; ".join(judgement.reasons))
    return judgement


def golden_predictions(held_out: HeldOut, predictor: "Predictor") -> Json:
    """Return instances, their offline predictions and true labels, to check a deployed model.

    The serving predictor predicts the very instances that are sent to the deployed model.
    """
    instances = [held_out.instance(index) for index in held_out.golden]
    return {
        "instances": instances,
        "predictions": predictor.predict(instances),
        "labels": [held_out.true_label(index) for index in held_out.golden],
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
    found = {name: _finite(one) for name, one in rows.items() if one}
    _write(artifact.path, json.dumps({**values, **found}, indent=2))


def log_confusion(artifact: "ClassificationMetrics", evaluation: Evaluation) -> None:
    """Write the confusion matrix, true classes in rows, to the artifact's metadata and file.

    Without classes only the file is written, with an empty matrix.
    """
    if evaluation.confusion:
        artifact.log_confusion_matrix(evaluation.labels, evaluation.confusion)
    content = {"labels": evaluation.labels, "confusion": evaluation.confusion}
    _write(artifact.path, json.dumps(content))


def _finite(rows: list[Row]) -> list[Row]:
    """Return rows with null instead of numbers that JSON does not have."""
    return [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
