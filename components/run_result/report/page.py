"""The page of a run's report."""

import shlex
from pathlib import Path

from components.model_version.decisions import STOPS
from components.prepare_examples.output.manifest import rule_words
from components.prepare_examples.statistics import report
from components.prepare_examples.statistics.schema import Anomaly
from components.run_result.report.content import DATA_LINK, Content
from components.run_result.report.sections.data import drift_view, split_table
from components.run_result.report.sections.training import (
    learning_charts,
    speed_chart,
    task_rows,
    usage_rows,
)
from components.run_result.report.sections.verdict import (
    advice_of,
    facts_of_run,
    outcome_words,
    tiles_of,
    tone_of,
)
from components.shared.pages.evaluation.sections import evaluation_sections, marks_of
from components.shared.pages.page import fill, render, write_page
from components.shared.text.value_text import moment_text, shown_value

REPORT_FILE = "report.html"
DATA_FILE = "data.html"


def write_report(content: Content, folder: Path) -> None:
    """Write `report.html` of a run, and of its examples `data.html`; they need no network."""
    if content.has_data_report:
        write_page(data_page(content), folder / DATA_FILE)
    write_page(run_page(content), folder / REPORT_FILE)


def data_page(content: Content) -> str:
    """Return the page of a run's examples, in one drawing with the champion's."""
    champion = content.champion_statistics.get("splits", {}).get("train")
    return report.data_page(
        content.manifest,
        content.statistics,
        rule=rule_words(content.manifest),
        anomalies=[Anomaly(**anomaly) for anomaly in content.anomalies],
        earlier={"champion": champion} if champion else {},
    )


def run_page(content: Content) -> str:
    """Return the page of a run."""
    summary = content.summary
    schedule, created = summary.schedule, moment_text(summary.created)
    about = [summary.workload, schedule and f"schedule {schedule}", created]
    features = content.statistics.get("splits", {}).get("train", {}).get("features", {})
    times = [name for name, feature in features.items() if feature.get("is_time")]
    evaluation = {**content.evaluation, "times": times}
    body = render(
        "run_result/report/report.html",
        summary=summary,
        outcome=outcome_words(summary),
        tone=tone_of(summary),
        is_stopped=summary.outcome in STOPS,
        marks=marks_of(evaluation, is_passed=summary.verdict == "passed", reasons=summary.reasons),
        numbers=tiles_of(content),
        evaluation=evaluation_sections(evaluation, metrics=summary.metrics),
        splits=split_table(content),
        drift=drift_view(content.statistics, content.champion_statistics),
        notes=list(dict.fromkeys([*summary.data_notes, *summary.drift])),
        curves=learning_charts(content.progress),
        logs=content.links.logs and shlex.quote(content.links.logs),
        tasks=task_rows(content),
        cost=content.cost,
        usage=usage_rows(content.replicas),
        speed=speed_chart(content.progress),
        facts=facts_of_run(summary),
        settings={name: shown_value(value) for name, value in summary.settings.items()},
        advice=advice_of(content),
    )
    links = dict(content.links.pages)
    if content.has_data_report:
        links[DATA_LINK] = DATA_FILE
    return fill(
        f"Run {summary.run}", body, about=" · ".join(filter(None, about)), links=links.items()
    )
