"""Section on the cluster: CPU and memory of each replica, speed of the training, and cost."""

from collections.abc import Sequence
from html import escape

from components.shared.pages.charts.axis import Axis, round_axis
from components.shared.pages.charts.plot import Series, line_chart
from components.shared.pages.html import section
from components.shared.run_report.content import Content, TrainingCost
from components.shared.run_report.sections.learning import speed_chart
from components.shared.run_summary.usage import MEBIBYTE, Usage, Values, maximum, mean, shorten

MAX_POINTS = 180
CHART_HEIGHT = 170
NO_USAGE = (
    '<p class="note">No samples of CPU and memory: the training was cached, took less than a'
    " second, ran in containers, or ran on Vertex AI (see Cloud Monitoring).</p>"
)


def cluster_section(content: Content) -> str:
    """Return the section."""
    charts = [*usage_charts(content.usages), speed_chart(content.progress)]
    body = f'<div class="charts">{"".join(charts)}</div>' if any(charts) else ""
    missing = "" if content.usages else NO_USAGE
    return section("Cluster", _cost(content.cost), missing, body)


def usage_charts(usages: Sequence[Usage]) -> list[str]:
    """Return two charts for each replica; all of a kind have the same axis."""
    if not usages:
        return []
    cores = round_axis([0.0, 1.0, *(maximum(one.cores) for one in usages)], title="busy cores")
    memory = round_axis(
        [0.0, *(maximum(one.memory_bytes) / MEBIBYTE for one in usages)], title="memory (MB)"
    )
    charts = []
    for one in usages:
        megabytes = [None if v is None else v / MEBIBYTE for v in one.memory_bytes]
        most, average = maximum(one.cores), mean(one.cores)
        text = f"{one.name}: {average:.1f} cores on average, at most {most:.1f}"
        charts.append(_chart(one, one.cores, cores, text=text))
        text = f"{one.name}: at most {maximum(megabytes):,.0f} MB"
        charts.append(_chart(one, megabytes, memory, text=text))
    return charts


def _chart(usage: Usage, values: Values, axis: Axis, *, text: str) -> str:
    shown = shorten(values, MAX_POINTS)
    end = float(usage.seconds[-1])
    step = end / max(len(shown) - 1, 1)
    points = [(index * step, value) for index, value in enumerate(shown)]
    return line_chart(
        [Series(name=usage.name, points=points, is_area=True)],
        x=round_axis([end], title="time (s)", low=0.0),
        y=axis,
        text=text,
        height=CHART_HEIGHT,
    )


def _cost(cost: TrainingCost | None) -> str:
    if cost is None:
        return ""
    kind = "spot" if cost.is_spot else "on-demand"
    return (
        f"<p>On Vertex AI this training, {cost.hours * 3600:,.0f} s, costs about"
        f" <b>${cost.dollars:.3g}</b>: {escape(kind)} prices of {escape(cost.region)},"
        f" {escape(cost.date)} (<code>components/plan_training/prices.yaml</code>), without its"
        " start and the other steps. On this machine it costs nothing.</p>"
    )
