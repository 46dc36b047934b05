"""HTML report of an evaluation, written before the run ends."""

from components.evaluate.thresholds import Judgement, format_metric
from components.shared.pages.evaluation.sections import evaluation_sections, marks_of
from components.shared.pages.page import fill, render
from trainer import Json

PERCENT_METRICS = frozenset({"accuracy"})


def render_report(evaluation: Json, judgement: Judgement) -> str:
    """Return the page: verdict, metrics, the sections of the label's kind, and mistakes."""
    body = render(
        "evaluate/report.html",
        verdict=judgement.verdict,
        is_passed=judgement.is_passed,
        marks=marks_of(evaluation, is_passed=judgement.is_passed, reasons=judgement.reasons),
        numbers=_tiles(evaluation),
        sections=evaluation_sections(evaluation, metrics={}),
    )
    return fill(f"{evaluation['workload']}: {judgement.verdict}", body, about="Evaluation")


def _tiles(evaluation: Json) -> list[tuple[str, str, str]]:
    shown = [(_shown(name, value), name, "") for name, value in evaluation["metrics"].items()]
    shown.append((f"{evaluation['num_examples']:,}", "test examples", ""))
    if num_unlabelled := evaluation.get("num_unlabelled"):
        shown.append((f"{num_unlabelled:,}", "left out, without a label", ""))
    return shown


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.2%}" if name in PERCENT_METRICS else format_metric(value)
