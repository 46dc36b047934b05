"""Reports of runs, written to the folder of local state."""

from pathlib import Path

from components.run_result.report.content import read_content
from components.run_result.report.page import REPORT_FILE, write_report
from components.run_result.summary import Summary, summarize
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL
from components.shared.vertex.task_details import replicas_of_jobs
from pipelines.places.target import Target
from pipelines.resources.kinds import RUN
from trainer import Json


def report_run(api: VertexApi, run: str, *, target: Target) -> Path:
    """Write the report of a run and return the file."""
    job = RUN.get(api, run)
    summary = summarize(job)
    folder = target.run_dir(summary.run)
    write_report_of(api, job, summary, folder)
    return folder / REPORT_FILE


def write_report_of(api: VertexApi, job: Json, summary: Summary, folder: Path) -> None:
    """Write the report of a run to its local folder."""
    replicas = replicas_of_jobs(api, label=f'labels.{RUN_LABEL}="{summary.run}"')
    write_report(read_content(job, summary, replicas=replicas, folder=folder), folder)
