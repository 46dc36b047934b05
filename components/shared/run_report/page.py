"""The page of a run's report."""

from collections.abc import Sequence
from pathlib import Path

from components.shared.pages.evaluation.sections import evaluation_sections
from components.shared.pages.page import fill, write_page
from components.shared.run_report.content import Content, read_content
from components.shared.run_report.sections.closing import next_section, settings_section
from components.shared.run_report.sections.cluster import cluster_section
from components.shared.run_report.sections.data import data_section
from components.shared.run_report.sections.learning import learning_section
from components.shared.run_report.sections.tasks import tasks_section
from components.shared.run_report.sections.verdict import verdict_section
from components.shared.run_summary.summary import Summary
from trainer import Json

REPORT_FILE = "report.html"


SECTIONS = (
    verdict_section,
    lambda content: evaluation_sections(content.evaluation, metrics=content.summary.metrics),
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
    content = read_content(job, summary, replicas=replicas, folder=folder)
    write_page(render(content), folder / REPORT_FILE)


def render(content: Content) -> str:
    """Return the page of a run."""
    summary = content.summary
    created = summary.created[:19].replace("T", " ") + " UTC" if summary.created else ""
    about = [summary.workload, summary.schedule and f"schedule {summary.schedule}", created]
    body = "\n".join(section_of(content) for section_of in SECTIONS)
    links = content.links.pages.items()
    return fill(f"Run {summary.run}", body, about=" · ".join(filter(None, about)), links=links)
