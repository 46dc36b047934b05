"""The page of a run's report."""

from pathlib import Path

from components.prepare_examples.output.manifest import rule_words
from components.prepare_examples.statistics import report
from components.prepare_examples.statistics.schema import Anomaly
from components.shared.pages.evaluation.sections import evaluation_sections
from components.shared.pages.page import fill, write_page
from components.shared.run_report.content import Content
from components.shared.run_report.links import DATA_LINK
from components.shared.run_report.sections.closing import next_section, settings_section
from components.shared.run_report.sections.cluster import cluster_section
from components.shared.run_report.sections.data import data_section
from components.shared.run_report.sections.learning import learning_section
from components.shared.run_report.sections.tasks import tasks_section
from components.shared.run_report.sections.verdict import verdict_section
from components.shared.text.value_text import moment_text

REPORT_FILE = "report.html"
DATA_FILE = "data.html"


def _evaluation_sections(content: Content) -> str:
    features = content.statistics.get("splits", {}).get("train", {}).get("features", {})
    times = [name for name, feature in features.items() if feature.get("is_time")]
    evaluation = {**content.evaluation, "times": times}
    return evaluation_sections(evaluation, metrics=content.summary.metrics)


SECTIONS = (
    verdict_section,
    _evaluation_sections,
    data_section,
    learning_section,
    tasks_section,
    cluster_section,
    settings_section,
    next_section,
)


def write_report(content: Content, folder: Path) -> None:
    """Write `report.html` of a run, and of its examples `data.html`; they need no network."""
    if content.has_data_report:
        write_page(render_data(content), folder / DATA_FILE)
    write_page(render(content), folder / REPORT_FILE)


def render_data(content: Content) -> str:
    """Return the page of a run's examples, in one drawing with the champion's."""
    champion = content.champion_statistics.get("splits", {}).get("train")
    return report.render(
        content.manifest,
        content.statistics,
        rule=rule_words(content.manifest),
        anomalies=[Anomaly(**anomaly) for anomaly in content.anomalies],
        earlier={"champion": champion} if champion else {},
    )


def render(content: Content) -> str:
    """Return the page of a run."""
    summary = content.summary
    schedule, created = summary.schedule, moment_text(summary.created)
    about = [summary.workload, schedule and f"schedule {schedule}", created]
    body = "\n".join(section_of(content) for section_of in SECTIONS)
    links = {**content.links.pages, **({DATA_LINK: DATA_FILE} if content.has_data_report else {})}
    return fill(
        f"Run {summary.run}", body, about=" · ".join(filter(None, about)), links=links.items()
    )
