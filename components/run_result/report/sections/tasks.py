"""The tasks: their times and results."""

from collections.abc import Mapping

from markupsafe import Markup

from components.run_result.report.content import Content
from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.bars import bar
from trainer import Json


def task_rows(content: Content) -> list[tuple[str, str, str]]:
    """Return name, bar and time of each task, in the order of their dependencies."""
    tasks = content.summary.tasks
    axis = round_axis([task["seconds"] for task in tasks], title="time (s)", has_zero=True)
    return [
        (
            _linked(task["name"], content.links.tasks),
            bar(task["seconds"], axis=axis, text=_time(task)) if _has_run(task) else "",
            _time(task),
        )
        for task in tasks
    ]


def _linked(task: str, pages: Mapping[str, str]) -> str:
    return Markup('<a href="{}">{}</a>').format(pages[task], task) if task in pages else task


def _time(task: Json) -> str:
    if not _has_run(task):
        return "cached" if task["cached"] else "not run"
    result = "" if task["state"] == "SUCCEEDED" else f" {task['state'].lower()}"
    return f"{task['seconds']:.1f} s{result}"


def _has_run(task: Json) -> bool:
    return task["state"] != "NOT_RUN" and not task["cached"]
