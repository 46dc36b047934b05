"""Reports of runs, written to the folder of local state."""

from pathlib import Path

from components.shared.pages.page import write_page
from components.shared.run_report.content import Content, read_content
from components.shared.run_report.page import REPORT_FILE, render
from components.shared.run_summary.summary import summarize
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL
from components.shared.vertex.task_details import replicas_of_jobs
from pipelines.places.target import Target
from pipelines.resources.kinds import RUN


def report_run(api: VertexApi, run: str, *, target: Target) -> Path:
    """Write the report of a run and return the file."""
    content = content_of(api, run)
    path = target.run_dir(content.summary.run) / REPORT_FILE
    write_page(render(content), path)
    return path


def content_of(api: VertexApi, run: str) -> Content:
    """Return what a report of a run draws."""
    job = RUN.get(api, run)
    summary = summarize(job)
    replicas = replicas_of_jobs(api, label=f'labels.{RUN_LABEL}="{summary.run}"')
    return read_content(job, summary, replicas=replicas)
