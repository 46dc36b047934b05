"""A schedule's nights on a service whose days take seconds, with a client at its endpoint."""

import datetime
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import requests
import yaml

from components.shared.run_summary.summary import summarize
from components.shared.vertex.labels import SCHEDULE_LABEL
from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import forks_with
from vertex_local.tests.support.service import HEADERS, running_service
from vertex_local.tests.support.waiting import wait_until

NUM_NIGHTS = int(os.environ.get("NIGHTS", "2"))
LAST, BEFORE = str(NUM_NIGHTS), str(NUM_NIGHTS - 1)
pytestmark = pytest.mark.timeout(300 * NUM_NIGHTS)
PATIENT = {"timeout_seconds": 150 * NUM_NIGHTS, "poll_seconds": 0.2}
COMMAND_TIMEOUT_SECONDS = 180
COLLECTIONS = "projects/local/locations/us-central1"
NUM_DAYS = 60 + 20 * NUM_NIGHTS  # more than pass on the fast clock before all nights have started
PAUSE_SECONDS = 0.05
CLOCK_SPEED = 17280  # a day takes five seconds


def write_days(write_csv, rows: list[dict[str, str]]) -> None:
    """A file of trips for each day, of which the fares tell the day."""
    today = datetime.datetime.now(datetime.UTC).date()
    for number in range(NUM_DAYS):
        day = today + datetime.timedelta(days=number - 2)
        write_csv([{**row, "fare": str(10 + number % 9)} for row in rows], f"{day}.csv")


@pytest.fixture
def home(tmp_path, monkeypatch, taxi_rows, write_csv):
    """A folder with state, temp files, and a schedule file for taxi on a few trips of each day."""
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "schedules").mkdir()
    write_days(write_csv, taxi_rows(200))
    nightly = {
        "workload": "taxi",
        "cron": "0 3 * * *",
        "time_zone": "America/Chicago",
        "max_runs": NUM_NIGHTS,
        "queue": True,
        "cache": False,
        "parameters": {
            "prepare.files": [f"{tmp_path}/{{run_date:%Y-%m-%d}}.csv"],
            "prepare.baseline": "previous",
            "train.epochs": 1,
            "thresholds.auc": 0,
            "thresholds.accuracy": 0,
            "gate.baseline": "none",
            "gate.min_gain": -2,  # each night promotes its model
        },
    }
    (tmp_path / "schedules" / "taxi-nightly.yaml").write_text(yaml.safe_dump(nightly))
    return tmp_path


def trainyard(*arguments: str, code: int = 0) -> str:
    words = ["python", "-m", "pipelines.cli", *arguments]
    with tempfile.NamedTemporaryFile() as log:
        process = forks_with(*EVERYTHING).start(words, log_path=Path(log.name))
        output, _ = process.communicate(COMMAND_TIMEOUT_SECONDS)
    assert process.returncode == code, output
    return output


@contextmanager
def serving(home) -> Iterator[str]:
    preload = ["--preload", "kfp.local,kfp.dsl.executor_main,tensorflow"]
    root = home / "state" / "vertex"
    with running_service(root, "--clock-speed", str(CLOCK_SPEED), *preload) as service:
        yield service.url


def resource(url: str, name: str) -> dict:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(f"{url}/v1/{name}", headers=HEADERS, timeout=30)
    assert answer.ok, answer.text
    return answer.json()


def resources(url: str, path: str) -> list[dict]:
    [found] = resource(url, f"{COLLECTIONS}/{path}").values()
    return found


def await_first_night(url: str) -> str:
    """Waits until a run has succeeded; returns the endpoint that it has left."""

    def has_succeeded() -> bool:
        runs = resources(url, "pipelineJobs")
        return any(run["state"] == "PIPELINE_STATE_SUCCEEDED" for run in runs)

    wait_until(has_succeeded, "the first night's end", **PATIENT)
    return resources(url, "endpoints")[0]["name"]


def await_nights(url: str) -> None:
    """Waits until the schedule has started all its runs and they have ended."""

    def is_over() -> bool:
        [schedule] = [one for one in resources(url, "schedules") if one["state"] != "PAUSED"]
        final = {"PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED"}
        has_ended = all(run["state"] in final for run in resources(url, "pipelineJobs"))
        return schedule["state"] == "COMPLETED" and has_ended

    wait_until(is_over, "the end of all nights", **PATIENT)


def check_nights(url: str) -> None:
    """Checks what the nights have left: a version each, of which the last one is served."""
    runs = resources(url, "pipelineJobs")
    assert [run["state"] for run in runs] == NUM_NIGHTS * ["PIPELINE_STATE_SUCCEEDED"], [
        run.get("error") for run in runs
    ]
    nights = sorted(run["name"][-14:] for run in runs)
    assert len(set(nights)) == NUM_NIGHTS
    assert all(re.fullmatch(r"\d{8}0[89]0000", night) for night in nights), nights
    check_dates(url, [run["name"] for run in runs])
    assert aliases(url) == {
        **{key: [] for key in map(str, range(1, NUM_NIGHTS))},
        BEFORE: ["previous"],
        LAST: ["default"],
    }
    [endpoint] = resources(url, "endpoints")
    assert [one["modelVersionId"] for one in endpoint["deployedModels"]] == [LAST]
    jobs = resources(url, "customJobs")
    assert [job["state"] for job in jobs] == NUM_NIGHTS * ["JOB_STATE_SUCCEEDED"]
    listed = trainyard("schedule", "list")
    assert re.search(rf"taxi-nightly +COMPLETED .* {NUM_NIGHTS} of {NUM_NIGHTS}", listed), listed


def check_dates(url: str, names: list[str]) -> None:
    """Checks that each night read the file of its own date, in the schedule's time zone."""
    inputs = []
    for name in names:
        run = resource(url, name)
        found = summarize(run)
        assert run["name"][-14:-6] == found.run_time[:10].replace("-", "")
        assert found.run_time[11:16] == "03:00"
        inputs.append(found.data_digest)
    assert len(set(inputs)) == NUM_NIGHTS
    newest = summarize(resource(url, max(names)))
    assert any(line.startswith("fare: ") for line in newest.drift), newest.drift


def aliases(url: str) -> dict[str, list[str]]:
    [model] = resources(url, "models")
    versions = resources(url, f"models/{model['name'].rpartition('/')[2]}:listVersions")
    return {version["versionId"]: version["versionAliases"] for version in versions}


class Client(threading.Thread):
    """Asks the endpoint `taxi` many times a second; keeps the answering versions, and errors."""

    def __init__(self, url: str, endpoint: str) -> None:
        super().__init__()
        self.versions: list[str] = []
        self.errors: list[str] = []
        self._url = f"{url}/v1/{endpoint}:predict"
        self._is_over = threading.Event()

    def run(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not self._is_over.is_set():
                body = {"instances": [{"trip_miles": 2.5}]}
                answer = session.post(self._url, json=body, headers=HEADERS)
                if answer.ok:
                    self.versions.append(answer.json()["modelVersionId"])
                else:
                    self.errors.append(answer.text)
                self._is_over.wait(PAUSE_SECONDS)

    def stop(self) -> None:
        self._is_over.set()
        self.join(COMMAND_TIMEOUT_SECONDS)


def write_paused(home, name: str, **thresholds: float) -> None:
    """A schedule that starts runs on request only."""
    schedule = yaml.safe_load((home / "schedules" / "taxi-nightly.yaml").read_text())
    limits = {f"thresholds.{metric}": limit for metric, limit in thresholds.items()}
    schedule["parameters"] |= {"train.seed": 5, **limits}
    schedule |= {"paused": True, "cache": True}
    (home / "schedules" / f"{name}.yaml").write_text(yaml.safe_dump(schedule))


def kill_before_promotion(home, run: str) -> None:
    """Kills the run's process as soon as its model is deployed."""
    folder = home / "state" / "vertex" / "pipelines" / run
    journal = folder / "events.jsonl"
    deadline = time.monotonic() + COMMAND_TIMEOUT_SECONDS
    while not journal.exists() or '"name": "release-model"' not in journal.read_text():
        assert time.monotonic() < deadline, journal.read_text()
        time.sleep(0.02)
    os.kill(json.loads((folder / "state.json").read_text())["replicas"]["pipeline"]["pid"], 9)


def await_end(url: str, run: str) -> None:
    """Waits until an interrupted run has been torn down."""
    deadline = time.monotonic() + COMMAND_TIMEOUT_SECONDS
    while True:
        [job] = [one for one in resources(url, "pipelineJobs") if one["name"].endswith(f"/{run}")]
        if job["state"] == "PIPELINE_STATE_FAILED":
            return
        assert time.monotonic() < deadline, job["state"]
        time.sleep(0.2)


def test_an_endpoint_answers_every_request_through_nights_and_failed_runs(home):
    write_paused(home, "killed")
    write_paused(home, "gated", loss=0)  # with the examples and the training of the killed one
    assert "created" in trainyard("schedule", "apply", str(home / "schedules"))
    with serving(home) as url:
        client = Client(url, await_first_night(url))
        client.start()
        try:
            await_nights(url)
            check_nights(url)
            run = trainyard("schedule", "run-now", "killed").split()[0]
            kill_before_promotion(home, run)
            await_end(url, run)
            trainyard("schedule", "run-now", "gated", "--wait", code=3)
            check_that_nothing_is_new(home, url)
        finally:
            client.stop()

        assert client.errors == []
        assert len(client.versions) > 100
        assert {BEFORE, LAST} <= set(client.versions)
        assert client.versions[-1] == LAST
        assert aliases(url) == {
            **{key: [] for key in map(str, range(1, NUM_NIGHTS))},
            BEFORE: ["previous"],
            LAST: ["default"],
        }
    assert_nothing_is_left(home)


def check_that_nothing_is_new(home, url: str) -> None:
    """Checks that a run with the last night's date and a trigger ends before its data step."""
    last = max(run["name"][-14:-6] for run in resources(url, "pipelineJobs") if is_of_nights(run))
    settings = {
        "prepare.files": f"{home}/{{run_date:%Y-%m-%d}}.csv",
        "prepare.run_date": f"{last[:4]}-{last[4:6]}-{last[6:]}",
        "trigger.new_files": "true",
    }
    words = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
    assert f"the data is that of version {LAST}" in trainyard("run", "taxi", *words)
    newest = max(resources(url, "pipelineJobs"), key=lambda run: run["createTime"])
    found = summarize(resource(url, newest["name"]))
    assert found.outcome == "nothing-new"
    ran = {task["name"] for task in found.tasks if task["state"] == "SUCCEEDED"}
    assert ran == {"start", "teardown"}


def is_of_nights(run: dict) -> bool:
    return run["labels"].get(SCHEDULE_LABEL) == "taxi-nightly"


def assert_nothing_is_left(home) -> None:
    """No process that has to do with the folder, no temp file."""
    left = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.environ().get("TRAINYARD_DIR", "")]
        except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            continue
        if process.pid != os.getpid() and any(str(home) in word for word in words):
            left.append(process.cmdline())
    assert left == []
    assert list((home / "tmp").iterdir()) == []
    assert not (home / "state" / "vertex" / "server.json").exists()
