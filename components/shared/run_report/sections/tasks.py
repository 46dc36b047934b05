"""Section on the tasks: their times and results."""

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
            escape(task["name"]),
            bar(task["seconds"], axis=axis, text=time_of(task)) if _has_run(task) else "",
            time_of(task),
        )
        for task in tasks
    ]
    return section("Tasks", table(("task", "", "time"), rows) if rows else "")


def time_of(task: Json) -> str:
    """Return the time of a task of a summary, with its result if that is not success."""
    if not _has_run(task):
        return "cached" if task["cached"] else "not run"
    result = "" if task["state"] == "SUCCEEDED" else f" {task['state'].lower()}"
    return f"{task['seconds']:.1f} s{escape(result)}"


def _has_run(task: Json) -> bool:
    return task["state"] != "NOT_RUN" and not task["cached"]
