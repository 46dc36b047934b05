"""`report.html` of a run: result, tasks, and CPU and memory of each replica of the training."""

from html import escape
from pathlib import Path
from string import Template

from components.run_summary.summary import Summary
from components.run_summary.usage import Usage, usages_of
from components.run_summary.usage_chart import usage_section
from trainer.json_types import Json

REPORT_FILE = "report.html"
TEMPLATE = Path(__file__).with_name("report.html")
NO_USAGE = (
    "<p>No samples: the training was cached, took less than a second, ran in containers whose"
    " control groups are not on this machine, or ran on Vertex AI (see Cloud Monitoring).</p>"
)


def write_report(summary: Summary, folder: Path, *, replicas: list[Json]) -> None:
    """Write `FOLDER/report.html`, a page that needs no network.

    `replicas` has the response of `…/customJobs/ID/replicas` for each training job; it is empty on
    Vertex AI.
    """
    page = render(summary, usages=[usage for of_job in replicas for usage in usages_of(of_job)])
    (folder / REPORT_FILE).write_text(page, encoding="utf-8")


def render(summary: Summary, *, usages: list[Usage]) -> str:
    """Return the page."""
    facts = {
        "state": summary.state,
        "workload": summary.workload,
        "verdict": ": ".join(filter(None, [summary.verdict, "; ".join(summary.reasons)])),
        **{name: f"{value:g}" for name, value in summary.metrics.items()},
        "model version": summary.model_version,
        "seconds": f"{summary.seconds:g}",
        "error": summary.error,
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(f"Run {summary.run}"),
        facts="".join(
            f"<tr><th>{escape(name)}</th><td>{escape(str(fact))}</td></tr>"
            for name, fact in facts.items()
            if fact
        ),
        tasks="".join(
            f"<tr><td>{escape(task['name'])}</td>"
            f"<td>{escape(task['state'].lower().replace('_', ' '))}"
            f"{' (cached)' if task['cached'] else ''}</td>"
            f"<td>{task['seconds']:.1f}</td></tr>"
            for task in summary.tasks
        ),
        usage=usage_section(usages) or NO_USAGE,
    )
