"""All sections on an evaluation, in the order of `sections.html`."""

from collections.abc import Iterable

from markupsafe import Markup

from components.shared.pages.evaluation.curves import curve_charts
from components.shared.pages.evaluation.errors import (
    confusion_view,
    label_view,
    mistakes_view,
    residual_view,
)
from components.shared.pages.evaluation.metrics import metrics_view
from components.shared.pages.evaluation.slices import importance_rows, slices_view
from components.shared.pages.page import render
from trainer import Json

NOT_MET, NOT_SURE, MET = ("bad", "✗"), ("unsure", "≈"), ("good", "✓")
MARKS = (NOT_MET, NOT_SURE, MET)


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
