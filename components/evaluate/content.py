"""Content of evaluation.json: everything that a report of an evaluation draws."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from components.evaluate.assess import Assessment
from components.evaluate.gate.checks import is_slice_ok
from components.evaluate.gate.comparison import CHAMPION, Slice
from components.evaluate.gate.gain import CONFIDENCE, is_same, measure_intervals
from components.evaluate.gate.options import CONSTANT, GateOptions
from components.evaluate.held_out import HeldOut, Row
from components.evaluate.thresholds import Check
from trainer import Json
from trainer.metrics.class_metrics import calibration, find_not_finite
from trainer.metrics.evaluation import Evaluation
from trainer.metrics.statistics import of_all
from trainer.serving.strict_json import finite
from trainer.workloads.encoding.image_files import encode_png

MAX_POINTS = 1000
NUM_CURVE_POINTS = 100
NUM_CLASSES = 2  # of a ROC curve
MAX_ANSWERS = 100_000
IMAGE_DIMENSIONS = (2, 3)


def evaluation_content(assessed: Assessment, checks: Sequence[Check]) -> Json:
    """Return the content; numbers that are not finite are null.

    `champion` or `baseline` is null without such a model; `gain` is the gain over the champion, or
    else over the baseline; `intervals` are the ends of the 95 % interval of each metric for which
    resampling gives the same value; `own_constant` is the gate's metric of the best constant for
    the very examples that judge, for information; `folds` is null if the test split judges. `low`
    and `high` are the ends of the interval of a slice's gain; its `ok` is null if it is
    `undefined`, with the reason.
    """
    evaluation, held_out = assessed.evaluation, assessed.held_out
    comparison = assessed.comparison
    options, champion = assessed.case.options, assessed.case.champion
    judged = assessed.judged
    gain = comparison.champion or comparison.baseline
    name = comparison.baseline_name
    folds = judged.folds
    content = {
        "workload": assessed.predictor.workload.name,
        "label_kind": held_out.label.kind,
        "labels": evaluation.labels,
        "num_examples": evaluation.num_examples,
        "num_unlabelled": held_out.num_unlabelled,
        "num_mistakes": held_out.num_mistakes,
        "unit": held_out.label.unit,
        "metrics": evaluation.metrics,
        "intervals": _intervals(held_out, evaluation.metrics),
        "folds": {**folds, "metrics": assessed.by_folds} if folds else None,
        "decision": assessed.predictor.decision,
        "importance": list(assessed.importance),
        "champion": {
            "version": champion.version,
            "metrics": held_out.score(CHAMPION).metrics,
        }
        if comparison.champion
        else None,
        "baseline": {"name": name, "metrics": held_out.score(name).metrics}
        if comparison.baseline
        else None,
        "gain": gain.to_json() if gain else None,
        "own_constant": _own_constant(judged, comparison.metric),
        "slices": [_slice(part, comparison.metric, options) for part in comparison.slices],
        "checks": [check.to_json() for check in checks],
        "curves": _curves(evaluation, held_out),
        "confusion": evaluation.confusion,
        "pairs": evaluation.pairs,
        "by_class": evaluation.by_class,
        "by_label": evaluation.by_label,
        "answers": held_out.label.answers(held_out.predictions, held_out.labels)
        if len(held_out.labels) <= MAX_ANSWERS
        else None,
        "mistakes": [_mistake(held_out, index) for index in held_out.mistakes],
    }
    valid: Json = finite(content)
    return valid


def _own_constant(held_out: HeldOut, metric: str) -> float | None:
    labels = held_out.labels
    if CONSTANT not in held_out.rivals or len(labels) > MAX_ANSWERS:
        return None
    best = held_out.label.fit_constant(labels, len(held_out.names))
    predictions = np.broadcast_to(best, (len(labels), *best.shape))
    return of_all(held_out.label.statistic(metric, predictions, labels), len(labels))


def _intervals(held_out: HeldOut, metrics: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    size = len(held_out.labels)
    if size > MAX_ANSWERS or len(find_not_finite(held_out.predictions)):
        return {}
    statistics = {
        name: held_out.statistic(name) for name in held_out.label.statistics(len(held_out.names))
    }
    same = {
        name: value
        for name, value in statistics.items()
        if is_same(metrics.get(name), of_all(value, size))
    }
    return measure_intervals(same, num_examples=size, confidence=CONFIDENCE)


def _slice(part: Slice, metric: str, options: GateOptions) -> Json:
    gain = part.gain
    return {
        "feature": part.rule,
        "value": part.value,
        "num_examples": part.num_examples,
        "metric": metric,
        "candidate": part.candidate,
        "champion": gain.other if gain else None,
        "low": gain.low if gain else None,
        "high": gain.high if gain else None,
        "undefined": part.undefined,
        "ok": is_slice_ok(part, options),
    }


def _curves(evaluation: Evaluation, held_out: HeldOut) -> Json:
    if len(find_not_finite(held_out.predictions)):
        return {}
    if held_out.label.is_number:
        every = -(-len(held_out.labels) // MAX_POINTS)
        points = {
            "actual": held_out.labels[::every].tolist(),
            "predicted": held_out.predictions[::every].tolist(),
        }
        return {"residuals": evaluation.by_decile, "points": points}
    roc = roc_curve(held_out)
    if roc is None:
        return {}
    scores, truth = held_out.predictions[:, 1], held_out.labels == 1
    return {
        "roc": roc,
        "pr": _precision_recall(scores, truth),
        "calibration": calibration(scores, held_out.labels),
        "at_threshold": _at_threshold(held_out),
    }


def _at_threshold(held_out: HeldOut) -> Json:
    is_true = held_out.labels == 1
    is_predicted = held_out.label.predicted(held_out.predictions) == 1
    hits = float((is_predicted & is_true).sum())
    return {
        "threshold": float(held_out.label.threshold),
        "precision": hits / max(float(is_predicted.sum()), 1.0),
        "recall": hits / float(is_true.sum()),
        "false_positive": float((is_predicted & ~is_true).sum() / (~is_true).sum()),
    }


def roc_curve(held_out: HeldOut) -> Json | None:
    """Return the points of the ROC curve, from (0, 0) to (1, 1), at 100 quantiles of the scores.

    None unless both of two classes occur and all scores are finite.
    """
    if not held_out.label.has_classes or len(held_out.names) != NUM_CLASSES:
        return None
    labels, scores = held_out.labels.astype(bool), held_out.predictions[:, 1]
    if labels.all() or not labels.any() or not np.isfinite(scores).all():
        return None
    shares = np.linspace(0, 1, NUM_CURVE_POINTS)
    limits = np.unique(np.quantile(scores, shares, method="nearest"))[::-1]

    def shares_from(limits: Any, scores: Any) -> list[float]:
        below = np.searchsorted(np.sort(scores), limits)
        return [0.0, *((len(scores) - below) / len(scores)).tolist()]

    return {
        "false_positive": shares_from(limits, scores[~labels]),
        "true_positive": shares_from(limits, scores[labels]),
        "thresholds": [1.0, *map(float, limits)],
    }


def _precision_recall(scores: Any, truth: Any) -> Json:
    """Return precision and recall at 100 thresholds or fewer, the highest first."""
    order = (-scores).argsort(kind="stable")
    hits = np.cumsum(truth[order])
    ends = np.unique(np.linspace(1, len(order), NUM_CURVE_POINTS).astype(int)) - 1
    return {
        "recall": (hits[ends] / hits[-1]).tolist(),
        "precision": (hits[ends] / (ends + 1)).tolist(),
        "thresholds": scores[order][ends].tolist(),
    }


def _mistake(held_out: HeldOut, index: int) -> Json:
    picture = image_uri(held_out.rows[index])
    shown = {"image": picture} if picture else {"instance": held_out.instance(index)}
    return {
        "index": index,
        "label": held_out.true_label(index),
        "predicted": held_out.predicted_label(index),
        "confidence": held_out.confidence(index),
        **shown,
    }


def image_uri(row: Row) -> str:
    """Return the pixels of an example of images as the `src` of an `<img>`; "" without any."""
    image = row.get("image")
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        return ""
    if image.ndim not in IMAGE_DIMENSIONS:
        return ""
    return "data:image/png;base64," + base64.b64encode(encode_png(image)).decode("ascii")
