"""All sections on an evaluation, in the order of `sections.html`."""

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from components.shared.pages.charts.axis import Axis
from components.shared.pages.charts.plot import Point, Series, line_chart, thinned
from components.shared.pages.evaluation.errors import (
    confusion_view,
    label_view,
    mistakes_view,
    residual_view,
)
from components.shared.pages.evaluation.slices import importance_rows, slices_view
from components.shared.pages.page import render
from trainer import Json

TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
NOT_MET, NOT_SURE, MET = ("bad", "✗"), ("unsure", "≈"), ("good", "✓")
MARKS = (NOT_MET, NOT_SURE, MET)


def curve_charts(curves: Json) -> list[str]:
    """Return the figures; none for other kinds of labels."""
    roc = {"all thresholds": _paired(curves.get("roc"), "false_positive", "true_positive")}
    pr = {"all thresholds": _paired(curves.get("pr"), "recall", "precision")}
    bins = [(row["predicted"], row["actual"]) for row in curves.get("calibration") or []]
    if point := curves.get("at_threshold"):
        name = f"threshold {point['threshold']:.4g}"
        roc[name] = [(point["false_positive"], point["recall"])]
        pr[name] = [(point["recall"], point["precision"])]
    return [
        _chart(roc, "ROC curve", "false positive rate", "true positive rate", has_diagonal=True),
        _chart(pr, "Precision and recall", "recall", "precision"),
        _chart(
            {"": bins},
            "Calibration: share of the class by predicted probability",
            "mean predicted probability",
            "share of the class",
            has_diagonal=True,
            has_dots=True,
        ),
    ]


def _chart(
    lines: dict[str, list[Point]],
    text: str,
    x_title: str,
    y_title: str,
    *,
    has_diagonal: bool = False,
    has_dots: bool = False,
) -> str:
    series = [
        Series(name=run, points=thinned(points), style=style, has_dots=has_dots or len(points) == 1)
        for style, (run, points) in enumerate(lines.items())
        if points
    ]
    if not series:
        return ""
    return line_chart(
        series,
        x=Axis(title=x_title, low=0.0, high=1.0, ticks=TICKS),
        y=Axis(title=y_title, low=0.0, high=1.0, ticks=TICKS),
        text=text,
        has_diagonal=has_diagonal,
    )


def _paired(curve: Any, across: str, up: str) -> list[Point]:
    if not isinstance(curve, dict):
        return []
    xs: Sequence[Any] = curve.get(across) or []
    ys: Iterable[Any] = curve.get(up) or []
    return [(float(x), y) for x, y in zip(xs, ys, strict=False) if x is not None]


def metrics_view(evaluation: Json, metrics: Json) -> Json:
    """Return the metrics, the folds', the champion's and the baseline's, and their limits.

    `metrics` is shown if the evaluation has none.
    """
    shown = evaluation.get("metrics") or metrics
    folds, champion, baseline = (
        evaluation.get(name) or {} for name in ("folds", "champion", "baseline")
    )
    titled = {
        fold_words(folds): folds,
        f"champion @{str(champion.get('version', '')).rpartition('@')[2]}": champion,
        f"baseline {baseline.get('name', '')}".strip(): baseline,
    }
    return {
        "shown": shown,
        "compared": {title: model.get("metrics", {}) for title, model in titled.items() if model},
        "limits": {
            check["name"]: check["limit"]
            for check in evaluation.get("checks", [])
            if check["name"] in shown and check["limit"] is not None
        },
    }


def fold_words(folds: Json) -> str:
    """Return `by 5 folds (150 rows)`, "" without folds."""
    return f"by {folds['count']} folds ({folds['rows']:,} rows)" if folds else ""


def marks_of(
    evaluation: Json, *, is_passed: bool, reasons: Iterable[str]
) -> list[tuple[str, str, str]]:
    """Return the conditions of the verdict, each with a mark: not met, not sure, and met.

    If the evaluation has no checks, they are the reasons.
    """
    marks = [(_mark_of(check), str(check["text"])) for check in evaluation.get("checks", [])]
    marks = marks or [(MET if is_passed else NOT_MET, reason) for reason in reasons]
    ordered = sorted(marks, key=lambda marked: MARKS.index(marked[0]))
    return [(css, mark, text) for (css, mark), text in ordered]


def _mark_of(check: Json) -> tuple[str, str]:
    if not check["ok"]:
        return NOT_MET
    return MET if check.get("sure", True) else NOT_SURE


def evaluation_sections(evaluation: Json, *, metrics: Json) -> Markup:
    """Return the sections for which the content of evaluation.json has values.

    `metrics` is shown if it has no metrics.
    """
    return render(
        "shared/pages/evaluation/sections.html",
        evaluation=evaluation,
        metrics=metrics_view(evaluation, metrics),
        importance=importance_rows(evaluation.get("importance") or []),
        slices=slices_view(evaluation.get("slices") or []),
        curves=curve_charts(evaluation.get("curves") or {}),
        confusion=confusion_view(evaluation),
        residuals=residual_view(evaluation),
        by_label=label_view(evaluation),
        mistakes=mistakes_view(evaluation),
    )
