"""Page of a tuning job: parallel coordinates, learning curves, importance of settings, trials."""

import math
import statistics
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.plot import Series, line_chart
from components.shared.pages.html import charts, percent, section, table, verdict
from components.shared.pages.page import fill, write_page
from pipelines.jobs.tuning import (
    MAXIMIZE,
    best_line,
    measure_name,
    setting_text,
    trials_table,
)
from trainer import Json

WIDTH, HEIGHT, MARGIN, TOP, BOTTOM = 720, 260, 70, 34, 24
NUM_GROUPS = 3
WIDE_RATIO = 10  # from which an axis has a log scale
MIN_TRIALS = 10  # fewer say nothing about the importance of a setting


def write_tuning_page(facts: Json, path: Path) -> None:
    """Write the page of a tuning job's facts (`tuning_facts`)."""
    trials = [trial for trial in facts["trials"] if trial["state"] == "SUCCEEDED"]
    best_first = sorted(trials, key=lambda trial: trial["value"], reverse=facts["goal"] == MAXIMIZE)
    rows = trials_table(facts)
    curves = _curves(best_first, measure_name(facts), x="folds" if facts["folds"] else "step")
    body = [
        verdict(best_line(facts), is_good=bool(facts["best"])),
        section("Settings and metric", _parallel(best_first, measure_name(facts))),
        section("Mean over the folds" if facts["folds"] else "Learning curves", curves),
        section("Importance of settings", _importance(best_first), note=IMPORTANCE),
        section(
            "Trials", table(rows.headings, [[escape(cell) for cell in row] for row in rows.rows])
        ),
    ]
    about = f"{facts['state']} · {len(trials)} of {facts['num_trials']} trials succeeded"
    write_page(fill(f"Tuning {facts['name']}", "\n".join(body), about=about), path)


def _parallel(trials: Sequence[Json], metric: str) -> str:
    """Return a line for each trial over an axis for each setting and one for the metric."""
    if not trials:
        return ""
    columns = {key: _values(trials, key) for key in trials[0]["settings"]}
    columns[metric] = [trial["value"] for trial in trials]
    step = (WIDTH - 2 * MARGIN) / (len(columns) - 1)
    axes, lines = "", ["" for _ in trials]
    for number, (name, values) in enumerate(columns.items()):
        x, heights = MARGIN + number * step, _heights(values)
        axes += (
            f'<path class="grid" d="M{x:.0f} {TOP}V{HEIGHT - BOTTOM}"/>'
            f'<text class="title" x="{x:.0f}" y="12" text-anchor="middle">{escape(name)}</text>'
        )
        texts = dict(zip(heights, values, strict=True))
        for height in texts if isinstance(values[0], str) else {min(texts), max(texts)}:
            text = escape(setting_text(texts[height]))
            y = height + 14 if height == HEIGHT - BOTTOM else height - 4  # beside the lines
            axes += f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{text}</text>'
        lines = [f"{line} {x:.1f},{y:.1f}" for line, y in zip(lines, heights, strict=True)]
    marks = [f'<polyline class="s3" points="{line}"/>' for line in lines[1:]]
    marks.append(f'<polyline class="s0" points="{lines[0]}"/>')
    text = "A line for each trial; the best is solid"
    return (
        f'<figure class="wide"><figcaption>{text}</figcaption><svg class="plot"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text}">{axes}{"".join(marks)}'
        "</svg></figure>"
    )


def _values(trials: Sequence[Json], key: str) -> list[Any]:
    return [trial["settings"][key] for trial in trials]


def _heights(values: Sequence[Any]) -> list[float]:
    """Return the heights of values on an axis: choices in order, wide ranges on a log scale."""
    if isinstance(values[0], str):
        order = sorted(set(values), key=lambda text: (len(text), text))  # 8 before 16
        values = [order.index(value) for value in values]
    elif min(values) > 0 and max(values) >= WIDE_RATIO * min(values):
        values = [math.log(value) for value in values]
    low, size = min(values), max(values) - min(values)
    length = HEIGHT - BOTTOM - TOP
    return [HEIGHT - BOTTOM - length * ((value - low) / size if size else 0.5) for value in values]


def _curves(trials: Sequence[Json], metric: str, *, x: str) -> str:
    """Return the chart of the metric after each measurement, the best trial before the others."""
    curves = [trial["curve"] for trial in trials if trial["curve"]]
    if not curves:
        return ""
    points: list[tuple[float, float | None]] = []
    for curve in curves[1:]:
        points += [*((float(step), value) for step, value in curve), (0.0, None)]
    best = [(float(step), value) for step, value in curves[0]]
    chart = line_chart(
        [
            Series(name="other trials", points=points, style=3),
            Series(name=f"trial {trials[0]['id']}", points=best, has_dots=True),
        ],
        x=round_axis([step for curve in curves for step, _ in curve], title=x, has_zero=True),
        y=round_axis([y for curve in curves for _, y in curve if y is not None], title=metric),
        text=metric,
    )
    return charts(chart)


IMPORTANCE = (
    f"Share of the metric's variance between the trials that a setting explains alone: between its"
    f" choices, or the {NUM_GROUPS} equal parts of its range. It is a rough hint."
)


def _importance(trials: Sequence[Json]) -> str:
    values = [trial["value"] for trial in trials]
    if len(trials) < MIN_TRIALS or statistics.pvariance(values) == 0:
        return ""
    shares = {key: _explained(_values(trials, key), values) for key in trials[0]["settings"]}
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return table(("setting", "share"), [(escape(key), percent(share)) for key, share in ordered])


def _explained(settings: Sequence[Any], values: Sequence[float]) -> float:
    """Return the correlation ratio of the values, by groups of the setting."""
    groups: dict[Any, list[float]] = {}
    has_few = len(set(settings)) <= NUM_GROUPS or isinstance(settings[0], str)
    order = sorted(range(len(values)), key=lambda index: settings[index])
    for rank, index in enumerate(order):
        group = settings[index] if has_few else rank * NUM_GROUPS // len(order)
        groups.setdefault(group, []).append(values[index])
    mean = statistics.fmean(values)
    between = sum(len(group) * (statistics.fmean(group) - mean) ** 2 for group in groups.values())
    return between / (len(values) * statistics.pvariance(values))
