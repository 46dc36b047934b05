"""All sections on an evaluation, in their order."""

from collections.abc import Iterable
from html import escape

from components.shared.pages.evaluation.curves import curves_section
from components.shared.pages.evaluation.errors import (
    confusion_section,
    label_section,
    mistakes_section,
    residual_section,
)
from components.shared.pages.evaluation.importance import importance_section
from components.shared.pages.evaluation.metrics import metrics_section
from components.shared.pages.evaluation.slices import slices_section
from trainer import Json

NOT_MET, NOT_SURE, MET = "✗", "≈", "✓"
CLASSES = {NOT_MET: "bad", NOT_SURE: "unsure", MET: "good"}
SECTIONS = (
    importance_section,
    slices_section,
    curves_section,
    confusion_section,
    residual_section,
    label_section,
    mistakes_section,
)


def checks(evaluation: Json, *, is_passed: bool, reasons: Iterable[str]) -> str:
    """Return the conditions of the verdict with a mark for each: not met, not sure, and met.

    If the evaluation has no checks, the reasons are listed.
    """
    marks = [(_mark_of(check), str(check["text"])) for check in evaluation.get("checks", [])]
    marks = marks or [(MET if is_passed else NOT_MET, reason) for reason in reasons]
    items = "".join(
        f'<li class="{CLASSES[mark]}"><b>{mark}</b> <span>{escape(text)}</span></li>'
        for mark, text in sorted(marks, key=lambda item: list(CLASSES).index(item[0]))
    )
    return f'<ul class="checks">{items}</ul>' if items else ""


def _mark_of(check: Json) -> str:
    if not check["ok"]:
        return NOT_MET
    return MET if check.get("sure", True) else NOT_SURE


def evaluation_sections(evaluation: Json, *, metrics: Json) -> str:
    """Return the sections for which the content of evaluation.json has values.

    `metrics` is shown if it has no metrics.
    """
    sections = [section_of(evaluation) for section_of in SECTIONS]
    return "\n".join([metrics_section(evaluation, metrics), *sections])
