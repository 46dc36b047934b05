"""All sections on an evaluation, in their order."""

from collections.abc import Iterable
from html import escape

from components.pages.evaluation.curves import curves_section
from components.pages.evaluation.errors import (
    confusion_section,
    label_section,
    mistakes_section,
    residual_section,
)
from components.pages.evaluation.metrics import metrics_section
from components.pages.evaluation.slices import slices_section
from trainer import Json

SECTIONS = (
    slices_section,
    curves_section,
    confusion_section,
    residual_section,
    label_section,
    mistakes_section,
)


def checks(evaluation: Json, *, is_passed: bool, reasons: Iterable[str]) -> str:
    """Return the conditions of the verdict with a mark for each, those that are not met first.

    If the evaluation has no checks, the reasons are listed.
    """
    marks = [(check["ok"], str(check["text"])) for check in evaluation.get("checks", [])]
    found = "".join(
        f'<li class="{"good" if is_ok else "bad"}"><b>{"✓" if is_ok else "✗"}</b> '
        f"<span>{escape(text)}</span></li>"
        for is_ok, text in sorted(
            marks or [(is_passed, reason) for reason in reasons], key=lambda mark: mark[0]
        )
    )
    return f'<ul class="checks">{found}</ul>' if found else ""


def evaluation_sections(evaluation: Json, *, metrics: Json) -> str:
    """Return the sections for which the content of evaluation.json has values.

    `metrics` is shown if it has no metrics.
    """
    sections = [section_of(evaluation) for section_of in SECTIONS]
    return "\n".join([metrics_section(evaluation, metrics), *sections])
