"""The step: evaluates a model, judges it, and writes the artifacts."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.evaluate.held_out import HeldOut, read_held_out
from components.evaluate.report import render_report
from components.evaluate.roc import log_roc, roc_curve
from components.evaluate.thresholds import Judgement, judge, parse_thresholds
from components.model_version.golden import write_golden
from trainer.json_types import Json
from trainer.runtime import tensorflow_logs

if TYPE_CHECKING:
    from kfp.dsl import ClassificationMetrics, Metrics

    from trainer.serving.evaluate import Evaluation
    from trainer.serving.export import Predictor

logger = logging.getLogger(__name__)


def evaluate_model(
    workload: str,
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
        workload: Name of the model's workload, such as `mnist`.
        thresholds: JSON, such as `{"accuracy": 0.985}`.
        examples_dir: A prepared dataset.
        model_dir: The SavedModel.
        metrics: Receives every metric and `num_examples`, as metadata and as a JSON file.
        confusion: Receives the confusion matrix, as metadata and as a JSON file; for two classes
            also the ROC curve, as metadata.
        golden_path: JSON file for the golden predictions; they are also written beside the model.
        report_path: HTML file for the report.

    Raises:
        StepError: The thresholds are malformed (checked first), or name an unknown metric.
        trainer.errors.InputError: The examples are missing, damaged or another workload's.
    """
    required = parse_thresholds(thresholds)
    tensorflow_logs.import_tensorflow()
    from trainer.serving.evaluate import score
    from trainer.serving.export import load_predictor

    predictor = load_predictor(model_dir)
    held_out = read_held_out(examples_dir, predictor)
    labels = list(predictor.workload.labels)
    evaluation = score(held_out.probabilities, held_out.labels, labels)
    judgement = judge(evaluation.metrics, required)
    log_metrics(metrics, evaluation)
    log_confusion(confusion, evaluation)
    roc = roc_curve(held_out)
    log_roc(confusion, roc)
    golden = golden_predictions(held_out, predictor, labels)
    _write(golden_path, json.dumps(golden))
    write_golden(model_dir, golden)
    _write(report_path, render_report(workload, evaluation, judgement, held_out=held_out, roc=roc))
    logger.info("%s: %s", judgement.verdict, "; ".join(judgement.reasons))
    return judgement


def golden_predictions(held_out: HeldOut, predictor: "Predictor", labels: Sequence[str]) -> Json:
    """Return instances, their offline predictions and true labels, to check a deployed model.

    The serving predictor predicts the very instances that are sent to the deployed model.
    """
    instances = [held_out.instance(index) for index in held_out.golden]
    return {
        "instances": instances,
        "predictions": predictor.predict(instances),
        "labels": [labels[held_out.labels[index]] for index in held_out.golden],
    }


def log_metrics(artifact: "Metrics", evaluation: "Evaluation") -> None:
    """Write the metrics to the artifact's metadata and file; without the file, no cache hit."""
    values: Json = {**evaluation.metrics, "num_examples": evaluation.num_examples}
    for name, value in values.items():
        artifact.log_metric(name, value)
    _write(artifact.path, json.dumps(values, indent=2))


def log_confusion(artifact: "ClassificationMetrics", evaluation: "Evaluation") -> None:
    """Write the confusion matrix, true classes in rows, to the artifact's metadata and file."""
    artifact.log_confusion_matrix(evaluation.labels, evaluation.confusion)
    content = {"labels": evaluation.labels, "confusion": evaluation.confusion}
    _write(artifact.path, json.dumps(content))


def _write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
