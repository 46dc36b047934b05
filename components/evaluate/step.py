"""The step itself: measure, judge, and write what later steps and people look at."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.evaluate.held_out import (
    NUM_GOLDEN,
    NUM_MISTAKES,
    HeldOut,
    choose_golden,
    find_mistakes,
    read_held_out,
)
from components.evaluate.report import render_report
from components.evaluate.roc import log_roc, roc_curve
from components.evaluate.thresholds import Judgement, judge, parse_thresholds
from components.model_version.golden import write_golden
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
    """Evaluates a model on the test split, fills the artifacts and answers the judgement.

    Args:
        workload: which data the model is for, as `mnist`.
        thresholds: JSON, such as `{"accuracy": 0.985}`.
        examples_dir: a prepared dataset.
        model_dir: the SavedModel.
        metrics: receives every metric and `num_examples`, as metadata and as a JSON file.
        confusion: receives the confusion matrix, as metadata and as a JSON file; of two classes
            also the ROC curve, as metadata.
        golden_path: where the golden predictions go, JSON; they go beside the model, too.
        report_path: where the HTML page goes.

    Raises:
        ThresholdError: the thresholds are wrong; said before anything is computed if it can be.
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
    mistakes = find_mistakes(held_out.labels, held_out.probabilities, NUM_MISTAKES)
    page = render_report(workload, evaluation, judgement, held_out=held_out, mistakes=mistakes)
    log_metrics(metrics, evaluation)
    log_confusion(confusion, evaluation)
    log_roc(confusion, roc_curve(held_out))
    golden = golden_predictions(held_out, predictor, labels)
    _write(golden_path, json.dumps(golden))
    write_golden(model_dir, golden)
    _write(report_path, page)
    logger.info("%s: %s", judgement.verdict, "; ".join(judgement.reasons))
    return judgement


def golden_predictions(
    held_out: HeldOut, predictor: "Predictor", labels: Sequence[str]
) -> dict[str, Any]:
    """What the deployed model must repeat: instances, offline predictions and true labels.

    The predictions come from the very instances that are sent, through the predictor that serves.
    """
    chosen = choose_golden(held_out.labels.tolist(), NUM_GOLDEN)
    instances = [held_out.instance(index) for index in chosen]
    return {
        "instances": instances,
        "predictions": predictor.predict(instances),
        "labels": [labels[held_out.labels[index]] for index in chosen],
    }


def log_metrics(artifact: "Metrics", evaluation: "Evaluation") -> None:
    """Every metric into the artifact's metadata, and into its file: no file, no cache hit."""
    values: dict[str, Any] = {**evaluation.metrics, "num_examples": evaluation.num_examples}
    for name, value in values.items():
        artifact.log_metric(name, value)
    _write(artifact.path, json.dumps(values, indent=2))


def log_confusion(artifact: "ClassificationMetrics", evaluation: "Evaluation") -> None:
    """The confusion matrix, rows true and columns predicted, as metadata and as a file."""
    artifact.log_confusion_matrix(evaluation.labels, evaluation.confusion)
    content = {"labels": evaluation.labels, "confusion": evaluation.confusion}
    _write(artifact.path, json.dumps(content))


def _write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
