"""Runs and schedules as tables and lines."""

from dataclasses import replace

import pytest

from components.run_result.summary import summarize
from pipelines.runs.output.tables import (
    metric_lines,
    metric_of,
    run_lines,
    runs_table,
    schedule_facts,
    schedule_lines,
)
from tests.support.data.run_records import FAILED, SETTINGS, job, promoted, task

pytestmark = pytest.mark.fast


def schedule(**fields) -> dict:
    return {
        "displayName": "mnist-nightly",
        "state": "ACTIVE",
        "cron": "TZ=Europe/Berlin 0 3 * * *",
        "startedRunCount": "3",
        "nextRunTime": "2026-11-22T02:00:00Z",
        **fields,
    }


def test_run_list_has_outcomes():
    table = runs_table([summarize(promoted()), summarize(job(FAILED)), summarize(job())])

    assert [row[1:4] for row in table.rows] == [
        ("promoted", "mnist@3", "accuracy 0.9871"),
        ("gate-failed", "-", "-"),
        ("succeeded", "-", "-"),
    ]
    assert table.rows[0][4] == "11-21 10:00"


def test_run_lines_fit_and_have_the_facts():
    found = job(
        FAILED, state="FAILED", error="one\ntwo " + "words " * 30, **SETTINGS, data_dir="/x"
    )
    lines = run_lines(summarize(found), found)

    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    assert "result            failed: accuracy 0.1 is below 0.9" in text
    assert "train.epochs=5" in text, "what is not the workload's own"
    assert "batch_size" not in text, "the workload's own is left out"
    assert "code              0123456789ab" in text
    assert "schedule          nightly" in text


@pytest.mark.parametrize(
    ("root", "folder"),
    [("/state/runs", "/state/runs/m-1"), ("gs://b/runs/", "gs://b/runs/p/m-1")],
    ids=["local", "vertex"],
)
def test_the_files_of_a_run_are_in_its_own_folder(root, folder):
    found = job()
    found["runtimeConfig"]["gcsOutputDirectory"] = root
    assert f"files             {folder}" in run_lines(summarize(found), found)


def test_long_error_is_shortened():
    words = "interrupted: killed\n" + "\n".join(f"line {number}" for number in range(40))
    found = job(state="FAILED", error=words)

    text = "\n".join(run_lines(summarize(found), found))

    assert "interrupted: killed" in text
    assert "line 39" in text
    assert "line 20" not in text
    assert "more lines: trainyard runs show m-1 --summary" in text


@pytest.mark.parametrize(
    ("thresholds", "shown"),
    [
        ('{"accuracy": 0.5, "auc": 0.9}', "auc 0.8000"),
        ('{"accuracy": 0.5, "loss": 0.2}', "loss 0.3000"),
        ('{"accuracy": 0.95, "loss": 0.9}', "accuracy 0.9000"),
        ('{"accuracy": {"at_most": 0.8}, "loss": 0.9}', "accuracy 0.9000"),
        ('{"accuracy": "high"}', "accuracy 0.9000"),
    ],
    ids=["least", "largest-loss", "met-loss", "direction", "of-another-package"],
)
def test_listed_metric_is_the_one_that_failed_the_gate(thresholds, shown):
    metrics = {"accuracy": 0.9, "auc": 0.8, "loss": 0.3}
    found = job(task("evaluate", metrics=metrics, verdict="failed"), thresholds=thresholds)

    assert metric_of(summarize(found)) == shown


@pytest.mark.parametrize("thresholds", ["{}", '{"auc": 0.79}'], ids=["no-threshold", "passed"])
def test_listed_metric_of_a_failed_comparison_is_the_gates(thresholds):
    metrics = {"accuracy": 0.9, "rmse": 0.3, "auc": 0.8}
    reasons = (
        "auc 0.8000 is at least 0.79\n"
        "rmse 0.3000 is 0.1000 worse than that of a linear model, 0.2000, surely worse by 0 to 1"
        " (95 % interval)"
    )
    failed = job(task("evaluate", metrics=metrics, verdict="failed"), thresholds=thresholds)
    run = replace(summarize(failed), reasons=tuple(reasons.splitlines()))

    assert metric_of(run) == "rmse 0.3000"


def test_metrics_are_shown_with_the_directions_of_their_thresholds():
    thresholds = '{"rmse": {"at_most": 3.2, "at_least": 1}, "r2": 0.5}'
    metrics = {"rmse": 2.5, "r2": 0.75, "mae": 1.0}
    run = summarize(job(task("evaluate", metrics=metrics), thresholds=thresholds))
    assert run.settings["thresholds.rmse.at_most"] == 3.2
    assert metric_lines(run, ["rmse", "r2", "mae"]) == {
        "test rmse": "2.5000 (at least 1 and at most 3.2)",
        "test r2": "0.7500 (at least 0.5)",
        "test mae": "1.0000",
    }
    by_folds = replace(run, folds={"metrics": {"rmse": 3.0}})
    assert metric_lines(by_folds, ["rmse", "r2"]) == {
        "folds rmse": "3.0000 (at least 1 and at most 3.2)",
        "test rmse": "2.5000",
        "test r2": "0.7500 (at least 0.5)",
    }
    assert metric_of(by_folds) == "rmse 3.0000"


def test_schedule_list_fits_and_has_the_last_outcome():
    last = summarize(promoted())
    lines = schedule_lines([(schedule(maxRunCount="9"), last), (schedule(state="PAUSED"), None)])

    assert all(len(line) <= 80 for line in lines), lines
    head, first, *below = lines
    assert head.split()[:6] == ["NAME", "STATE", "RUNS", "RESULT", "VERSION", "ENDED"]
    for fact in ("mnist-nightly", "ACTIVE", "3 of 9", "promoted", "mnist@3", "11-21 10:01"):
        assert fact in first
        assert first.index("promoted") == head.index("RESULT")
    assert "accuracy 0.9871" in " ".join(below)
    assert "train.epochs=5" in " ".join(below)
    facts = schedule_facts(schedule(), last)
    assert facts["lastRun"]["outcome"] == "promoted"
    assert facts["settings"]["train.epochs"] == 5


def test_a_run_without_news_is_shown_with_its_reason_and_date():
    found = task(
        "start",
        run_time="2026-11-20T03:00:00-06:00",
        verdict="nothing new",
        reasons="version 3 has seen every file",
    )
    run = summarize(job(found))
    assert runs_table([run]).rows[0][1] == "nothing-new"
    assert "version 3 has seen every file" in " ".join(schedule_lines([(schedule(), run)]))
    lines = {line[:18].strip(): line[18:] for line in run_lines(run, job(found))}
    assert lines["new data"] == "version 3 has seen every file"
    assert lines["date"] == "2026-11-20 03:00:00"
