"""The training: charts of its metrics, the tasks and their times, and the use of the machines."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from components.run_result.report.content import Content
from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.plot import Point, Series, bar, line_chart, thinned
from components.shared.text.json_object import numbers
from trainer import Json

SPLITS = ("train", "eval")
SPEED = "examples_per_second"
OTHERS = ("step", "time", "step_ms", SPEED)
MAX_CHARTS = 6


def learning_charts(progress: Sequence[Json]) -> list[str]:
    """Return a chart for each metric: first the loss, the learning rate only if it changes."""
    measured = dict.fromkeys(name for line in progress for name in numbers(line))
    ranked = sorted(measured, key=lambda name: name != "loss")
    names = [name for name in ranked if name not in OTHERS and _is_shown(name, progress)]
    return [_chart(name, progress) for name in names[:MAX_CHARTS]]


def _chart(name: str, progress: Sequence[Json]) -> str:
    lines = {split: _points(progress, split, name) for split in SPLITS}
    series = [
        Series(name=split, points=points, style=style, has_dots=len(points) < 20)  # noqa: PLR2004
        for style, (split, points) in enumerate(lines.items())
        if points
    ]
    known = [point for line in series for point in line.points]
    return line_chart(
        series,
        x=round_axis([x for x, _ in known], title="step", has_zero=True),
        y=round_axis([y for _, y in known if y is not None], title=name),
        text=name.replace("_", " "),
    )


def speed_chart(progress: Sequence[Json]) -> str:
    """Return the chart of the training's speed; "" if it was not logged."""
    points = _points(progress, "train", SPEED)
    if not points:
        return ""
    return line_chart(
        [Series(name=SPEED, points=points, has_dots=len(points) == 1)],
        x=round_axis([x for x, _ in points], title="step", has_zero=True),
        y=round_axis([y or 0.0 for _, y in points], title="examples/s", has_zero=True),
        text="speed of the training",
    )


def _points(progress: Sequence[Json], split: str, name: str) -> list[Point]:
    known = [line for line in progress if line.get("split") == split]
    values = {float(numbers(line).get("step", 0)): numbers(line).get(name) for line in known}
    return thinned([(step, value) for step, value in sorted(values.items()) if value is not None])


def _is_shown(name: str, progress: Sequence[Json]) -> bool:
    return name != "learning_rate" or len({line[name] for line in progress if name in line}) > 1


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


def usage_rows(replicas: Sequence[Json]) -> list[tuple[str, str, str]]:
    """Return CPU and memory of the replicas that have ended; containers have none."""
    return [
        (
            replica["name"],
            f"{replica['cpuSeconds']:,.1f} s",
            f"{replica['peakMemoryBytes'] / 1e6:,.0f} MB",
        )
        for replica in replicas
        if "peakMemoryBytes" in replica
    ]
