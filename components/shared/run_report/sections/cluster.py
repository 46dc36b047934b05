"""Section on the cluster: CPU and memory of each replica, speed of the training, and cost."""

from collections.abc import Sequence
from html import escape

from components.shared.pages.html import charts, section, table
from components.shared.run_report.content import Content, TrainingCost
from components.shared.run_report.sections.learning import speed_chart
from trainer import Json


def cluster_section(content: Content) -> str:
    """Return the section."""
    speed = charts(speed_chart(content.progress))
    return section("Cluster", _cost(content.cost), _usage(content.replicas), speed)


def _usage(replicas: Sequence[Json]) -> str:
    """Return CPU and memory of the replicas that have ended; containers have none."""
    rows = [
        (
            escape(replica["name"]),
            f"{replica['cpuSeconds']:,.1f} s",
            f"{replica['peakMemoryBytes'] / 1e6:,.0f} MB",
        )
        for replica in replicas
        if "peakMemoryBytes" in replica
    ]
    return table(("replica", "CPU", "most memory"), rows) if rows else ""


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
