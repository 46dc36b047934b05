"""The page that compares two runs."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from components.shared.pages.evaluation.curves import curve_charts
from components.shared.pages.evaluation.errors import gallery
from components.shared.pages.html import charts, number, section, signed, table
from components.shared.pages.page import fill
from components.shared.run_report.content import Content
from components.shared.run_report.sections.data import changes_of_data
from components.shared.run_report.sections.learning import learning_chart, metric_names
from components.shared.run_report.sections.tasks import time_of
from components.shared.run_report.sides import changed_sides, count_sides

DIGEST_DIGITS = 16
MAX_CHARTS = 6
FIRST, SECOND = "A", "B"
Difference = tuple[str, Any, Any]


def render_comparison(first: Content, second: Content, *, differences: Sequence[Difference]) -> str:
    """Return the page; `differences` has a name and the values of both runs for each fact."""
    runs = {FIRST: first, SECOND: second}
    about = "".join(
        f"<tr><th>{name}</th><td>{escape(content.summary.run)}</td>"
        f"<td>{escape(content.summary.outcome)} {escape(content.summary.model_version)}</td></tr>"
        for name, content in runs.items()
    )
    body = [
        f'<div class="wide"><table>{about}</table></div>',
        section("Differences", _differences(differences)),
        section("Metrics of the test split", _metrics(first, second)),
        section("Learning curves", charts(_learning(runs))),
        section("Curves", charts(curve_charts({n: c.evaluation for n, c in runs.items()}))),
        section("Examples that changed sides", _sides(first, second)),
        section("Data", changes_of_data(second.statistics, first.statistics, of="A's")),
        section("Times of the tasks", _tasks(first, second)),
    ]
    return fill(f"{first.summary.run} and {second.summary.run}", "\n".join(filter(None, body)))


def _differences(differences: Iterable[Difference]) -> str:
    rows = [
        (escape(title), _shown(a), _shown(b))
        for title, a, b in differences
        if not title.startswith("test ")
    ]
    if not rows:
        return "<p>The settings, the data and the code are the same.</p>"
    return table(("", FIRST, SECOND), rows)


def _metrics(first: Content, second: Content) -> str:
    before, after = (
        content.evaluation.get("metrics") or content.summary.metrics for content in (first, second)
    )
    rows = [
        (
            escape(name),
            number(before.get(name)),
            number(after.get(name)),
            _change(name, before, after),
        )
        for name in dict.fromkeys([*before, *after])
    ]
    return table(("metric", FIRST, SECOND, "B minus A"), rows, css="numbers") if rows else ""


def _change(name: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    a, b = before.get(name), after.get(name)
    return "" if a is None or b is None else signed(b - a)


def _learning(runs: dict[str, Content]) -> str:
    names = dict.fromkeys(
        name for content in runs.values() for name in metric_names(content.progress)
    )
    shown = [name for name in names if name != "learning_rate"][:MAX_CHARTS]
    return "".join(
        learning_chart(name, {run: content.progress for run, content in runs.items()})
        for name in shown
    )


def _sides(first: Content, second: Content) -> str:
    sides = changed_sides(first, second)
    if isinstance(sides, str):
        return f'<p class="note">{escape(sides)}</p>'
    parts = [f"<p>{escape(count_sides(sides))}</p>"]
    for title, mistakes in (
        ("A is wrong, B is right", sides.gained),
        ("A is right, B is wrong", sides.lost),
    ):
        if mistakes:
            parts.append(f"<h3>{title}</h3>{gallery(mistakes)}")
    return "".join(parts)


def _tasks(first: Content, second: Content) -> str:
    times = [
        {task["name"]: time_of(task) for task in content.summary.tasks}
        for content in (first, second)
    ]
    rows = [
        (escape(name), *(times_of_run.get(name, "n/a") for times_of_run in times))
        for name in dict.fromkeys([*times[0], *times[1]])
    ]
    return table(("task", FIRST, SECOND), rows, css="numbers") if rows else ""


def _shown(value: Any) -> str:
    text = "n/a" if value is None else number(value)
    return text.removeprefix("sha256:")[:DIGEST_DIGITS] if text.startswith("sha256:") else text
