"""Section on the tasks of the pipeline."""

from components.shared.pages.html import section
from components.shared.run_report.content import Content
from components.shared.run_report.graph import draw_graph


def tasks_section(content: Content) -> str:
    """Return the graph of the tasks with their times."""
    drawing = draw_graph(content.nodes) if content.nodes else ""
    note = "Bars: when each task ran, within the run. Hollow circles: from the cache, or not run."
    return section("Tasks", drawing, note=note)
