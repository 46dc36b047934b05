"""Facts of runs as tables, lines and differences, and the commands to try next."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from components.prepare_examples.raw_data.sources import check_data_dir
from components.run_summary.summary import summarize
from pipelines.runs import hints, on_failure
from pipelines.runs.differences import compare, differences_json, differences_table
from pipelines.runs.facts import newest_runs
from pipelines.runs.tables import (
    aligned,
    metric_of,
    run_lines,
    runs_table,
    schedule_facts,
    schedule_lines,
)
from pipelines.target.places import local_target, vertex_target
from tests.components.run_summary.test_summary import FAILED, VERSION, job, task
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

LONG = "train-and-deploy-mnist-1234567890123456789-20261121030000"
SETTINGS = {"train": '{"epochs": 5, "batch_size": 128}', "thresholds": '{"accuracy": 0.985}'}


def passed(accuracy: float) -> dict:
    return task("evaluate", metrics={"accuracy": accuracy, "num_examples": 10}, verdict="passed")


def promoted(accuracy: float = 0.9871, **parameters: str) -> dict:
    found = job(
        task("fingerprint-input", Output="sha256:" + "a" * 64),
        passed(accuracy),
        task("promote", Output=VERSION),
        **{**SETTINGS, **parameters},
    )
    return {**found, "name": f"projects/p/locations/l/pipelineJobs/{LONG}"}


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


class ListWithoutDetails:
    """Fake of Vertex AI: lists have no task details, and a listed run may be deleted."""

    def __init__(self, *jobs: dict) -> None:
        self._jobs = {one["name"]: one for one in jobs}
        self.asked: list[str] = []

    def list_resources(self, path: str, *, filter: str = ""):
        self.asked.append(filter)
        keys = ("name", "state", "createTime")
        yield {"name": "gone", "state": "x", "createTime": "2027"}
        yield from ({key: one[key] for key in keys} for one in self._jobs.values())

    def find(self, name: str) -> dict | None:
        self.asked.append(name)
        return self._jobs.get(name)


def test_each_listed_run_is_requested_for_its_tasks():
    older = {**job(FAILED), "createTime": "2026-11-20T10:00:00Z"}
    api = ListWithoutDetails(older, promoted())

    found = newest_runs(api, limit=2, schedule="nightly")

    assert [run.outcome for run in found] == ["promoted"], "one of the two newest is gone"
    assert [run.outcome for run in newest_runs(api, limit=0)] == ["promoted", "gate-failed"]
    assert api.asked[0] == 'labels.trainyard_schedule="nightly"'
    assert len(api.asked) == 3 + 4


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


def test_listed_metric_is_the_one_that_failed_the_gate():
    judged = task("evaluate", metrics={"accuracy": 0.9, "auc": 0.8}, verdict="failed")
    found = job(judged, thresholds='{"accuracy": 0.5, "auc": 0.9}')

    assert metric_of(summarize(found)) == "auc 0.8000"


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


def test_two_runs_differ_in_settings_data_code_and_metrics():
    first = summarize(promoted())
    second = dataclasses.replace(
        summarize(promoted(0.99, train='{"epochs": 7}')), code_digest="ba9876543210"
    )
    found = compare(first, second)

    assert [(one.name, one.first, one.second) for one in found] == [
        ("code_digest", "0123456789ab", "ba9876543210"),
        ("train.batch_size", 128, None),
        ("train.epochs", 5, 7),
        ("accuracy", 0.9871, 0.99),
    ]
    rows = differences_table(found).rows
    assert rows[2] == ("train.epochs", "5", "7", "+2")
    assert rows[3] == ("test accuracy", "0.9871", "0.99", "+0.0029")
    assert rows[1] == ("train.batch_size", "128", "-", "")
    assert compare(first, first) == []
    assert len(compare(first, first, has_all=True)) > len(found)
    content = differences_json(first, second, found)
    assert content["settings"]["train.epochs"] == {"a": 5, "b": 7}
    assert content["a"] == LONG
    assert all(len(line) <= 80 for line in aligned(differences_table(compare(first, second))))


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Targets with the default state folder, and with another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINYARD_DIR", raising=False)
    monkeypatch.setattr(hints.shutil, "which", lambda name: str(Path(sys.executable).parent / name))
    return local_target(tmp_path / ".trainyard"), local_target(tmp_path / "second state")


def test_hints_after_a_failure_name_task_and_state_folder(places):
    usual, other = places
    found = job(task("evaluate", state="FAILED"), state="FAILED", error="x")

    first = hints.after_failure(summarize(found), usual)[0]
    assert first == "trainyard runs logs m-1 --task evaluate"
    first, _, resume = hints.after_failure(summarize(found), other)
    assert first == "trainyard runs logs m-1 --task evaluate --state-dir 'second state'"
    assert resume == "trainyard runs resume m-1 --wait --state-dir 'second state'"
    assert hints.stop_command(other) == "vertex-local stop --root 'second state/vertex'"
    cloud = vertex_target(usual.state_dir, project="p", location="l", pipeline_root="gs://b/r")
    assert hints.command("trainyard runs show r", cloud).endswith(
        "--on vertex --project p --location l"
    )


WRITE = (
    "import json,os,sys; "
    "json.dump([json.load(sys.stdin), dict(os.environ)], open(sys.argv[1], 'w'))"
)


@pytest.mark.parametrize("found", [job(FAILED), job(state="CANCELLED")], ids=["gate", "cancelled"])
def test_on_failure_is_run_after_a_bad_end(tmp_path, found):
    target, summary = local_target(tmp_path / "state"), summarize(found)
    summary.write(target.run_dir("m-1"))
    words = on_failure.check_command(f'{sys.executable} -c "{WRITE}" {tmp_path / "told"}')

    assert on_failure.run_command(words, summary, target=target) == ""

    content, environment = json.loads((tmp_path / "told").read_text())
    assert content == json.loads(summary.to_json())
    assert environment["TRAINYARD_RUN"] == "m-1"
    assert environment["TRAINYARD_OUTCOME"] == summary.outcome
    assert json.loads(Path(environment["TRAINYARD_SUMMARY"]).read_text()) == content


@pytest.mark.parametrize("found", [promoted(), job(state="RUNNING")], ids=["good", "going-on"])
def test_on_failure_is_not_run_otherwise(tmp_path, found):
    words = [sys.executable, "-c", "raise SystemExit(1)"]
    assert on_failure.run_command(words, summarize(found), target=local_target(tmp_path)) == ""


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise SystemExit(7)", "7"),
        ("import time; time.sleep(60)", "0.5 s"),
        ("pass", ""),  # reads nothing
    ],
    ids=["fails", "hangs", "deaf"],
)
def test_failure_of_on_failure_is_reported(tmp_path, code, problem):
    words = [sys.executable, "-c", code]
    seconds = 0.5 if "sleep" in code else 30
    said = on_failure.run_command(
        words, summarize(job(FAILED)), target=local_target(tmp_path), timeout_seconds=seconds
    )
    assert said.endswith(problem) if problem else said == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such-program --x", "there is no such program"),
        ("'open", "No closing quotation"),
        ("  ", "there is no such program"),
    ],
)
def test_invalid_on_failure_is_refused_before_the_run(text, message):
    with pytest.raises(ConfigError, match=message):
        on_failure.check_command(text)


def test_on_failure_requires_wait():
    with pytest.raises(ConfigError, match="needs --wait"):
        on_failure.check_command("true", is_waiting=False)


def test_mistyped_data_folder_is_refused_and_not_created(tmp_path):
    (tmp_path / "raw-data").mkdir()
    with pytest.raises(ValueError, match=r"did you mean 'raw-data'\?"):
        check_data_dir(str(tmp_path / "raw-dta"))
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="not a folder"):
        check_data_dir(str(tmp_path / "file"))
    check_data_dir(str(tmp_path / "raw-data"))
    check_data_dir("gs://bucket/data")
    check_data_dir("")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "raw-data"]


@pytest.mark.parametrize(
    "command", ["run mnist", "submit mnist", "schedule apply", "jobs submit mnist"]
)
def test_every_command_with_a_data_folder_checks_it(tmp_path, capsys, monkeypatch, command):
    from pipelines.cli import main

    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    code = main([*command.split(), "--data-dir", str(tmp_path / "nowhere")])

    assert code == 2
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "state").exists()


def test_preparing_examples_alone_checks_the_data_folder(tmp_path, capsys):
    from components.prepare_examples.command_line.cli import main

    places = ["--output-dir", str(tmp_path / "out"), "--data-dir", str(tmp_path / "nowhere")]

    assert main(["--workload", "mnist", *places]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
