"""The page of a run's report."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from components.run_report.content import Content, read_content
from components.run_report.sections.closing import next_section, settings_section
from components.run_report.sections.cluster import cluster_section
from components.run_report.sections.curves import curves_section
from components.run_report.sections.data import data_section
from components.run_report.sections.errors import (
    confusion_section,
    label_section,
    mistakes_section,
    residual_section,
)
from components.run_report.sections.learning import learning_section
from components.run_report.sections.slices import slices_section
from components.run_report.sections.tasks import tasks_section
from components.run_report.sections.verdict import metrics_section, verdict_section
from components.run_summary.summary import Summary
from trainer.json_types import Json

REPORT_FILE = "report.html"
TEMPLATE = Path(__file__).with_name("page.html")
CHARTS = Path(__file__).parents[1] / "charts" / "charts.css"
SECTIONS = (
    verdict_section,
    metrics_section,
    slices_section,
    curves_section,
    confusion_section,
    residual_section,
    label_section,
    mistakes_section,
    data_section,
    learning_section,
    tasks_section,
    cluster_section,
    settings_section,
    next_section,
)


def write_report(job: Json, summary: Summary, folder: Path, *, replicas: Sequence[Json]) -> None:
    """Write `FOLDER/report.html` of a PipelineJob, a page that needs no network.

    `replicas` has the response of `…/customJobs/ID/replicas` for each training job; it is empty on
    Vertex AI.
    """
    write_page(render(read_content(job, summary, replicas=replicas)), folder / REPORT_FILE)


def write_page(page: str, path: Path) -> None:
    """Write a page, and its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def render(content: Content) -> str:
    """Return the page of a run."""
    summary = content.summary
    created = summary.created[:19].replace("T", " ") + " UTC" if summary.created else ""
    about = [summary.workload, summary.schedule and f"schedule {summary.schedule}", created]
    body = "\n".join(section_of(content) for section_of in SECTIONS)
    return fill(f"Run {summary.run}", body, about=" · ".join(filter(None, about)))


def fill(title: str, body: str, *, about: str = "") -> str:
    """Return a page with a title and a body in HTML."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        about=escape(about),
        charts=CHARTS.read_text(encoding="utf-8"),
        body=body,
    )
