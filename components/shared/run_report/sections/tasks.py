"""Section on the tasks: their times and results."""

from collections.abc import Mapping
from html import escape

from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.bars import bar
from components.shared.pages.html import section, table
from components.shared.run_report.content import Content
from trainer import Json


def tasks_section(content: Content) -> str:
    """Return the section: a row for each task, in the order of their dependencies."""
    tasks = content.summary.tasks
    axis = round_axis([task["seconds"] for task in tasks], title="time (s)", has_zero=True)
    rows = [
        (
            _name(task["name"], content.links.tasks),
            bar(task["seconds"], axis=axis, text=_time(task)) if _has_run(task) else "",
            _time(task),
        )
        for task in tasks
    ]
    return section("Tasks", table(("task", "", "time"), rows) if rows else "")


def _name(task: str, pages: Mapping[str, str]) -> str:
    name = escape(task)
    return f'<a href="{escape(pages[task])}">{name}</a>' if task in pages else name


def _time(task: Json) -> str:
    if not _has_run(task):
        return "cached" if task["cached"] else "not run"
    result = "" if task["state"] == "SUCCEEDED" else f" {task['state'].lower()}"
    return f"{task['seconds']:.1f} s{escape(result)}"


def _has_run(task: Json) -> bool:
    return task["state"] != "NOT_RUN" and not task["cached"]
