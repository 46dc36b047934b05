import dataclasses
import datetime
import io
import json
import re

import pytest
from rich.console import Console

from components.run_result.report.content import Content
from components.run_result.report.facts import facts_of
from components.run_result.report.page import REPORT_FILE, write_report
from components.run_result.settings import settings_of
from components.run_result.summary import as_ended, summarize
from pipelines.command.running.execution import print_outcome
from pipelines.places.target import Target
from pipelines.projects.runs import find_run
from pipelines.runs.output.ending import print_result
from tests.support.data.run_records import FAILED, PASSED, STEPS, VERSION, job, pipeline, task

pytestmark = pytest.mark.fast
NO_NEWS = task(
    "start",
    fingerprint="sha256:abc",
    run_time="2026-11-01T03:00:00-06:00",
    verdict="nothing new",
    reasons="version 3 has seen every file",
)


@pytest.mark.parametrize(
    ("found", "outcome", "version", "is_new"),
    [
        pytest.param(
            job(PASSED, task("release-model", Output=VERSION)), "promoted", "mnist@3", True
        ),
        pytest.param(job(PASSED, task("serve-known", Output=VERSION)), "same-model", "mnist@3", 0),
        pytest.param(
            job(PASSED, task("serve-known", Output=VERSION, promoted=VERSION)),
            "promoted",
            "mnist@3",
            False,
        ),
        pytest.param(job(FAILED), "gate-failed", "", False),
        pytest.param(job(NO_NEWS), "nothing-new", "", False),
        pytest.param(job(), "succeeded", "", False),
        pytest.param(job(state="FAILED", error="boom"), "failed", "", False),
        pytest.param(
            job(state="FAILED", error="interrupted: the service stopped"), "interrupted", "", False
        ),
        pytest.param(job(FAILED, state="CANCELLED"), "cancelled", "", False),
        pytest.param(job(PASSED, state="RUNNING"), "running", "", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_outcome_of_a_run_is_one_word(found, outcome, version, is_new):
    summary = summarize(found)

    assert (summary.outcome, summary.model_version) == (outcome, version)
    assert summary.is_new_version is bool(is_new)
    assert summary.is_final == (outcome != "running")
    assert summary.is_good == (outcome in ("promoted", "same-model", "succeeded", "nothing-new"))


def test_a_run_without_news_says_why_and_for_which_date():
    summary = summarize(job(NO_NEWS))

    assert summary.news == ("version 3 has seen every file",)
    assert summary.run_time == "2026-11-01T03:00:00-06:00"
    assert summary.data_digest == "sha256:abc"
    assert summary.headline.endswith("nothing-new: version 3 has seen every file")


def test_drift_and_reasons_are_those_of_the_comparison_with_the_champion():
    compared = task("plan-training", verdict="train", reasons="drift: PSI 0.4")
    compared["outputs"] = {
        "drift": {"artifacts": [{"uri": "/d", "metadata": {"drift": "fare: up to 3: 10 → 30 %"}}]}
    }
    found = {**job(task("start", reasons="old"), compared)}
    found["pipelineSpec"] = pipeline("start", "plan-training")
    summary = summarize(found)

    assert (summary.outcome, summary.news) == ("succeeded", ("old", "drift: PSI 0.4"))
    assert summary.drift == ("fare: up to 3: 10 → 30 %",)


def test_a_version_that_the_teardown_promoted_counts():
    """`promote` has no output if it was killed; the teardown completes the promotion."""
    found = job(PASSED, state="FAILED", error="interrupted: the service stopped")
    summary = summarize(found, exit_metadata={"promoted": VERSION, "warnings": "a\nb"})

    assert summary.outcome == "interrupted"
    assert summary.model_version == "mnist@3"
    assert summary.warnings == ("a", "b")


def test_a_run_that_fails_after_its_promotion_says_what_serves_and_how_to_clean_up(
    target, tmp_path, capsys
):
    """As on a full disk: the version serves, and the teardown could not remove the rest."""
    words = "mnist@3 was promoted all the same: it is the default, and serves where deployed"
    error = "teardown of run m-1 is incomplete: No space left on device"
    steps = task("release-model", Output=VERSION), task("teardown", state="FAILED")
    found = job(PASSED, *steps, state="FAILED", error=error)
    summary = summarize(found)

    assert summary.headline == f"m-1 of the schedule nightly: failed: {error}; {words}"
    content = Content(summary=summary)
    write_report(content, tmp_path)
    page = (tmp_path / REPORT_FILE).read_text()
    assert words in page
    assert "trainyard teardown m-1" in page
    assert "runs resume" not in page
    assert facts_of(content)["reasons"].startswith(words)
    print_outcome(summary, target=target)
    assert words in capsys.readouterr().err
    printed = printed_end(found, target)
    assert words in printed
    assert "trainyard teardown m-1" in printed


def test_the_facts_of_a_run_come_from_its_pipeline_job():
    summary = summarize(
        job(
            task("start", fingerprint="sha256:abc"),
            task(
                "evaluate",
                state="SKIPPED",
                metrics={"accuracy": 0.99, "num_examples": 10.0, "note": "x"},
                verdict="failed",
                reasons="one\ntwo",
            ),
            task("release-model", state="NOT_TRIGGERED"),
            train='{"epochs": 5, "batch_size": 64}',
            thresholds='{"accuracy": 0.9}',
            project="p",
        )
    )

    assert (summary.run, summary.workload, summary.schedule) == ("m-1", "mnist", "nightly")
    assert summary.metrics == {"accuracy": 0.99, "num_examples": 10}
    assert (summary.verdict, summary.reasons) == ("failed", ("one", "two"))
    assert (summary.data_digest, summary.code_digest) == ("sha256:abc", "0123456789ab")
    assert summary.settings == {
        "workload": "mnist",
        "model_name": "mnist",
        "max_examples": 0,
        "train.batch_size": 64,
        "train.epochs": 5,
        "thresholds.accuracy": 0.9,
    }
    assert summary.seconds == 60.25
    assert [one["name"] for one in summary.tasks] == list(STEPS)
    assert summary.tasks[1] == {
        "name": "evaluate",
        "state": "SUCCEEDED",
        "seconds": 2.5,
        "cached": True,
    }


def test_measurements_of_prediction_servers_are_kept_by_task():
    checked = task("evaluate", metrics={"num_clients": 8.0, "latency_ms_p99": 2.5})
    predicted = task("release-model", metrics={"num_replayed": 200.0, "slowdown": 1.25})
    found = job(checked, predicted)

    assert summarize(found).serving == {
        "evaluate": {"num_clients": 8, "latency_ms_p99": 2.5},
        "release-model": {"num_replayed": 200, "slowdown": 1.25},
    }


def test_the_exit_task_writes_the_facts_that_are_read_after_the_end():
    """Its own task is still running; only its end and that of the run differ."""
    running = {**task("teardown", state="RUNNING")}
    del running["endTime"]
    before = job(FAILED, running, state="RUNNING")
    now = datetime.datetime(2026, 11, 21, 10, 1, tzinfo=datetime.UTC)

    written = summarize(as_ended(before, state="SUCCEEDED", error="", now=now))
    read = summarize(job(FAILED, task("teardown")))

    assert written.tasks[-1]["state"] == "SUCCEEDED"
    for name in ("ended", "seconds", "tasks"):
        written = dataclasses.replace(written, **{name: getattr(read, name)})
    assert written == read


@pytest.mark.parametrize(
    ("state", "message", "outcome"),
    [
        ("CANCELLED", "interrupted: the service stopped", "interrupted"),
        ("CANCELLED", "a user cancelled it", "cancelled"),
        ("FAILED", "interrupted: the service stopped", "failed"),
    ],
)
def test_only_what_the_service_cancelled_ends_as_interrupted(state, message, outcome):
    before = job(state=state, error=message)
    now = datetime.datetime(2026, 11, 21, 10, 1, tzinfo=datetime.UTC)
    assert summarize(as_ended(before, state=state, error="told", now=now)).outcome == outcome


LINES = "the step exited with code 1. Last lines:\nTraceback\nerror: data.csv: no column 'tips'\n"


def failed_with(words: str) -> dict:
    return {**task("start", state="FAILED"), "error": {"message": words}}


def test_the_error_of_a_run_is_the_steps_line_for_the_user():
    found = job(failed_with(LINES), state="FAILED", error=f"The DAG failed\n{LINES}")
    assert summarize(found).error == "start: data.csv: no column 'tips'"
    for words, error in (("Traceback\nKeyError: 7", "The DAG failed"), (LINES, "interrupted: x")):
        assert summarize(job(failed_with(words), state="FAILED", error=error)).error == error


def test_the_path_of_a_webhook_is_hidden():
    shown = settings_of(job(on_failure_url="https://hooks.example/services/SECRET"))

    assert shown["on_failure_url"] == "https://hooks.example/…"


def test_latest_links_to_the_run_written_last(tmp_path):
    for name in ("m-1", "m-2"):
        summarize(job(FAILED)).write(tmp_path / name)

    assert (tmp_path / "latest").resolve() == tmp_path / "m-2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "m-1", "m-2"]
    content = json.loads((tmp_path / "latest" / "summary.json").read_text())
    assert content["outcome"] == "gate-failed"
    assert list((tmp_path / "m-1").iterdir()) == [tmp_path / "m-1" / "summary.json"]


def with_drift() -> dict:
    """Return a run with drift in five features of its examples."""
    prepared = {
        "report": "report.html",
        "notes": "72 rows: 71 examples, 1 quarantined (fare 1)",
        "drift": "\n".join(f"f{number}: Mobile 0 → {number} %" for number in range(5, 0, -1)),
    }
    one = task("prepare-examples")
    artifact = {"uri": "/runs/m-1/examples", "metadata": prepared}
    found = job({**one, "outputs": {"examples": {"artifacts": [artifact]}}}, PASSED)
    return {**found, "pipelineSpec": pipeline("prepare-examples", *STEPS)}


@pytest.fixture
def target(tmp_path) -> Target:
    places = {"project": "p", "location": "l", "pipeline_root": "", "data_root": ""}
    return Target(**places, state_dir=tmp_path)


def printed_end(found: dict, target: Target) -> str:
    """Return what `trainyard run` prints at the end of a run."""
    console = Console(file=io.StringIO(), width=200)
    print_result(
        summarize(found),
        outputs={},
        config=find_run("mnist"),
        target=target,
        is_kept=False,
        console=console,
    )
    return console.file.getvalue()


def test_a_summary_has_all_drift_and_the_end_of_a_run_names_the_worst(target, capsys):
    summary = summarize(with_drift())
    assert summary.data_report == "/runs/m-1/examples/report.html"
    assert summary.data_notes == ("72 rows: 71 examples, 1 quarantined (fare 1)",)
    assert len(summary.drift) == 5

    print_outcome(summary, target=target)  # of a submitted run
    submitted, printed = capsys.readouterr().out, printed_end(with_drift(), target)
    assert re.findall(r"drift: (f\d): Mobile", submitted) == ["f5", "f4", "f3"]
    assert "data report: /runs/m-1/examples/report.html" in submitted
    assert re.findall(r"(f\d): Mobile", printed) == ["f5", "f4", "f3"]
    assert "2 more in the data report" in printed
    assert "m-1/data.html" in printed
