"""The result in words, and the run in a few numbers."""

from components.model_version.decisions import HELD, NOT_PROMOTED
from components.run_result.report.content import Content
from components.run_result.summary import (
    CANCELLED,
    FAILED,
    GATE_FAILED,
    INTERRUPTED,
    PROMOTED,
    SAME_MODEL,
    SUCCEEDED,
    Summary,
)
from components.shared.pages.charts.axis import tick_text
from components.shared.pages.evaluation.metrics import fold_words
from components.shared.pages.formats import measured, number, signed
from components.shared.vertex.labels import REJECTED, WAITING
from trainer.metrics.directions import HIGHER_IS_BETTER, LOWER_IS_BETTER

MAX_METRICS = 4
LEAST_DOLLARS, LEAST_LARGE = 0.01, 1e6
WORDS = {
    PROMOTED: "Promoted: {version} is the default version",
    SAME_MODEL: "Same model: {version} stays the default version",
    SUCCEEDED: "Succeeded",
    GATE_FAILED: "Not promoted: the model did not pass",
    FAILED: "Failed",
    HELD: "Not promoted: the model is held",
    REJECTED: "Not promoted: the same model was rejected",
    WAITING: "Waiting for an approval: {version}",
    NOT_PROMOTED: "Passed, and not promoted, as it was asked",
    CANCELLED: "Cancelled",
    INTERRUPTED: "Interrupted",
}


def outcome_words(summary: Summary) -> str:
    """Return the result of a run as a sentence."""
    return WORDS.get(summary.outcome, summary.outcome).format(version=summary.model_version)


def tiles_of(content: Content) -> list[tuple[str, str, str]]:
    """Return values with their names and notes: metrics, examples, time and cost."""
    summary = content.summary
    folds = content.evaluation.get("folds") or {}
    metrics = folds.get("metrics") or content.evaluation.get("metrics") or summary.metrics
    before = {} if folds else (content.evaluation.get("champion") or {}).get("metrics", {})
    shown = [
        (_short(value), name, fold_words(folds) or _change(name, value, before.get(name)))
        for name, value in metrics.items()
        if not name.startswith("num_")
    ][:MAX_METRICS]
    if num_examples := content.evaluation.get("num_examples") or metrics.get("num_examples"):
        shown.append((f"{int(num_examples):,}", "test examples", ""))
    shown.append((_duration(summary), "whole run", _cached(summary)))
    if content.cost:
        dollars = content.cost.expected or 0
        text = f"${dollars:,.2f}" if dollars >= LEAST_DOLLARS else f"< ${LEAST_DOLLARS}"
        shown.append((text, "training on Vertex AI", "estimate"))
    return shown


def _short(value: float | None) -> str:
    """Return a metric that fits into a tile: `4.441B` for 4,440,945,863."""
    is_large = value is not None and abs(value) >= LEAST_LARGE
    return tick_text(float(f"{value:.4g}")) if is_large else measured(value)


def _change(name: str, value: float, before: float | None) -> str:
    """Return the difference to the champion's metric, in words if more or less is better."""
    if before is None or value is None:
        return ""
    is_less = name in LOWER_IS_BETTER
    if value == before or not (is_less or name in HIGHER_IS_BETTER):
        return f"{signed(value - before)} to champion"
    word = "better" if (value < before) is is_less else "worse"
    return f"{number(abs(value - before))} {word} than the champion"


def _duration(summary: Summary) -> str:
    minutes, seconds = divmod(round(summary.seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{summary.seconds:.1f} s"


def _cached(summary: Summary) -> str:
    num_cached = sum(task["cached"] for task in summary.tasks)
    tasks = "task" if num_cached == 1 else "tasks"
    return f"{num_cached} {tasks} from the cache" if num_cached else ""
