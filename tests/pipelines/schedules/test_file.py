"""Schedule files: contents, mistakes, and the changes that apply them."""

import datetime
import json
import re
from pathlib import Path

import pytest
import yaml

from pipelines.cli import main
from pipelines.places.target import local_target
from pipelines.schedules.differences import differences, run_request_of
from pipelines.schedules.file import read_schedule, read_schedules
from pipelines.schedules.plan import (
    REQUEST,
    SCHEDULE_LABEL,
    Wanted,
    next_runs,
    plan_schedule,
    schedule_request,
)
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = Path(__file__).with_name("golden") / "schedule.json"
NOW = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
PARENT = "projects/p/locations/l"
GOOD = {"workload": "taxi", "cron": "0 3 * * *"}
FULL = {
    **GOOD,
    "time_zone": "Europe/Berlin",
    "start": "2026-12-01",
    "end": "2027-01-01T06:00:00+00:00",
    "max_runs": 30,
    "concurrency": 2,
    "queue": True,
}
RUN = {
    "displayName": "nightly",
    "pipelineSpec": {"pipelineInfo": {"name": "train"}},
    "runtimeConfig": {"gcsOutputDirectory": "gs://b/r", "parameterValues": {"train": "{}"}},
    "labels": {"team": "vision", "trainyard_run": "nightly"},
}


@pytest.fixture
def refused(write, tmp_path, monkeypatch, capsys):
    """Apply an invalid file; check that nothing was sent and return the error."""

    def do(values: dict) -> str:
        monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
        path = write(values)
        assert main(["schedule", "apply", str(tmp_path)]) == 2
        assert not (tmp_path / "state").exists()
        said = capsys.readouterr().err
        assert str(path) in said
        return said

    return do


@pytest.fixture
def write(tmp_path):
    def do(values: object, name: str = "nightly.yaml") -> Path:
        (tmp_path / name).write_text(yaml.safe_dump(values))
        return tmp_path / name

    return do


def request_of(path: Path, run: dict = RUN) -> dict:
    return schedule_request(read_schedule(path), run, parent=PARENT)


def test_the_request_is_the_golden_one(write):
    assert request_of(write(FULL)) == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cron": "0 0 3 * * *"}, r"cron: '0 0 3 \* \* \*' has 6 fields"),
        ({"cron": "TZ=Europe/Berlin 0 3 * * *"}, "cron: .* the time zone in time_zone"),
        ({"cron": "0 25 * * *"}, "cron: '0 25 .*Bad hour"),
        ({"cron": "0 3 L * *"}, "cron: 'L' in"),
        ({"cron": 3}, "cron is 3; .*five fields"),
        ({"cron": None}, "cron is not set; .*times of the runs"),
        ({"time_zone": "Europe/Berln"}, "time_zone: 'Europe/Berln' is no time zone"),
        ({"start": "2026-12-02", "end": "2026-12-01"}, "end: 2026-12-01 is not after start"),
        ({"start": "soon"}, "start: 'soon'.*2026-12-31"),
        *(
            ({field: text}, f"{field}: '{re.escape(text)}' is not a time from 1900 to 2999; ")
            for field in ("start", "end")
            for text in ("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59Z", "1-01-01")
        ),
        ({"start": "2999-12-31"}, "start: 2999-12-31 is more than fifty years ahead"),
        (
            {"workload": "taxy"},
            r"workload: .*'taxy'.*did you mean 'taxi'\?.*mnist",
        ),
        ({"package": "p.yaml"}, "give either workload or package"),
        ({"workload": None}, "give either workload or package"),
        ({"workload": None, "package": "gone.yaml"}, "package: .*gone.yaml"),
        ({"max_runs": 0}, "max_runs is 0; .*whole number from 1"),
        ({"concurrency": True}, "concurrency is True; "),
        ({"paused": "yes"}, "paused is 'yes'; .*true or false"),
        ({"crom": "0 3 * * *"}, r"no 'crom'; did you mean 'cron'\? allowed are workload"),
        ({"parameters": {"train.epoch": 1}}, "line [0-9]+: unknown key 'train.epoch'"),
        ({"parameters": {"train.epochs": "x"}}, "line [0-9]+: train.epochs is 'x'"),
        ({"trigger": {"new_file": True}}, r"trigger has no 'new_file'; did you mean"),
        ({"trigger": {"cool_down": 3}}, "trigger.cool_down is 3; .*such as 12h"),
        ({"trigger": True}, "trigger is True; .*new_files: true"),
        ({"parameters": {"prepare.window": "1y"}}, r"line [0-9]+: prepare.window is '1y'"),
        ({"parameters": ["train.epochs=1"]}, "parameters is .*train.epochs: 5"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistake_is_reported_with_file_and_field_before_a_request(refused, change, message):
    assert re.search(message, said := refused(GOOD | change)), said


@pytest.fixture
def planned(write, tmp_path):
    """Return the request of a schedule, and the parameters of its runs."""

    def do(**values: object) -> tuple[dict, dict]:
        file = read_schedule(write(GOOD | values))
        body = plan_schedule(file, target=local_target(tmp_path)).body
        return body, parameters_of(body[REQUEST]["pipelineJob"])

    return do


def parameters_of(run: dict) -> dict:
    return run["runtimeConfig"]["parameterValues"]


def test_scheduled_runs_keep_the_endpoint_by_default(planned):
    for parameters, keeps in (({}, True), ({"keep_endpoint": False}, False)):
        assert planned(parameters=parameters)[1]["keep_endpoint"] is keeps


def test_a_schedule_gives_its_runs_its_trigger_and_its_time_zone(planned):
    """Dates in names of files are those of the zone in which the schedule is written."""
    files = {"prepare.files": ["/d/{run_date:%Y-%m-%d}.csv"]}
    trigger = {"new_files": True, "cool_down": "3d"}

    body, parameters = planned(time_zone="Asia/Tokyo", parameters=files, trigger=trigger)

    assert json.loads(parameters["trigger"]) == trigger
    assert json.loads(parameters["prepare"])["run_time_zone"] == "Asia/Tokyo"
    assert "trigger" not in parameters_of(run_request_of(body, run="r"))
    assert planned(time_zone="Asia/Tokyo")[1]["prepare"] == "{}", "without dates"


def test_the_documented_and_the_shipped_schedules_are_valid(tmp_path):
    page = (ROOT / "docs" / "schedules.md").read_text()
    [text] = re.findall(r"```yaml\n(# configs/schedules/trips-nightly.yaml\n.*?)```", page, re.S)
    (tmp_path / "trips-nightly.yaml").write_text(text)

    [file] = read_schedules(tmp_path)

    assert {"trigger.drift=0.25", "prepare.window=30d"} <= set(file.settings)
    plan_schedule(file, target=local_target(tmp_path))
    shipped = read_schedules(ROOT / "configs" / "schedules")
    assert [one.name for one in shipped] == ["mnist-weekly", "taxi-nightly"]


def test_mistakes_in_all_files_are_reported(write, tmp_path):
    write({**GOOD, "max_runs": 0}, "one.yaml")
    write({**GOOD, "cron": "x"}, "two.yaml")
    write(GOOD, "Three.yaml")

    with pytest.raises(ConfigError) as caught:
        read_schedules(tmp_path)

    assert [name in str(caught.value) for name in ("one.yaml", "two.yaml", "Three.yaml")] == 3 * [
        True
    ]


def test_all_mistakes_of_a_file_are_told_at_once(refused):
    said = refused(
        {
            **{"workload": "taxi", "cron": "0 25 * * *", "time_zone": "x", "start": "soon"},
            **{"max_runs": 0, "qeue": True, "parameters": {"train.epoch": 1}},
        }
    )
    for words in (
        "Bad hour",
        "'x' is no time zone",
        "'soon'",
        "max_runs",
        "'queue'",
        "'train.epochs'",
    ):
        assert words in said


def test_package_path_is_relative_to_the_schedule_file(write, tmp_path):
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "p.yaml").write_text("a: 1")

    found = read_schedule(write({"package": "dist/p.yaml", "cron": "0 3 * * *"}))

    assert found.source == str(tmp_path / "dist" / "p.yaml")


def test_a_package_an_image_or_a_folder_that_does_not_fit_is_refused(write, tmp_path, capsys):
    def refused(*arguments: str) -> str:
        assert main(["schedule", "apply", *arguments, "--state-dir", str(tmp_path / "s")]) == 2
        return capsys.readouterr().err

    (tmp_path / "p.txt").write_text("a: 1")
    path = write({"package": "p.txt", "cron": "0 3 * * *"})
    assert f"{path}: package: " in refused(str(tmp_path))
    path = write(GOOD)
    where = ("--on", "vertex", "--project", "p", "--pipeline-root", "gs://b/runs")
    assert f"{path}: workload: the image trainyard:" in refused(str(tmp_path), *where)
    assert str(tmp_path / "none") in refused(str(tmp_path / "none"))


def wanted(body: dict, *, is_paused: bool | None = False, catch_up: bool = False) -> Wanted:
    return Wanted(body=body, is_paused=is_paused, catch_up=catch_up)


def there(body: dict, **fields: object) -> dict:
    """Return the schedule as Vertex AI returns it."""
    return {"startTime": "2026-11-01T00:00:00Z", **body, "name": "s/1", "state": "ACTIVE", **fields}


@pytest.fixture
def body(write) -> dict:
    return request_of(write({**GOOD, "max_runs": 3}))


def only(wanted_: Wanted, existing: dict) -> tuple[str, str]:
    [change] = differences([wanted_], [existing], now=NOW)
    return change.action, change.detail


CRON = "TZ=UTC 0 3 * * *"


@pytest.mark.parametrize(
    ("fields", "options", "action"),
    [
        ({}, {}, "keep"),
        ({"maxRunCount": "3", "catchUp": False, "allowQueueing": False}, {}, "keep"),
        ({"cron": "TZ=UTC 0 4 * * *"}, {}, "change"),
        ({"endTime": "2027-01-01T00:00:00Z"}, {}, "change"),
        ({"allowQueueing": True}, {}, "change"),
        ({"state": "COMPLETED"}, {}, "keep"),
        ({"state": "COMPLETED", "maxRunCount": "2"}, {}, "change"),
        ({"state": "PAUSED"}, {}, "change"),
        ({}, {"is_paused": True}, "change"),
        ({}, {"catch_up": True}, "change"),
        ({"state": "PAUSED"}, {"is_paused": True, "catch_up": True}, "keep"),
    ],
    ids=str,
)
def test_changes_of_a_schedule(body, fields, options, action):
    detail = f"{CRON}, paused" if options.get("is_paused") else CRON
    assert only(wanted(body, **options), there(body, **fields)) == (action, detail)


def test_a_paused_schedule_stays_paused_if_its_file_does_not_say_it(body):
    undecided = wanted(body, is_paused=None)
    for cron, action in ((CRON, "keep"), ("TZ=UTC 0 4 * * *", "change")):
        paused = there(body, state="PAUSED", cron=cron)
        assert only(undecided, paused) == (action, f"{CRON}, paused")
        assert only(undecided, there(body, cron=cron)) == (action, CRON)


@pytest.mark.parametrize("field", ["runtimeConfig", "pipelineSpec"])
def test_a_schedule_with_another_run_is_changed(body, write, field):
    changed = request_of(write({**GOOD, "max_runs": 3}), {**RUN, field: {}})

    assert only(wanted(changed), there(body)) == ("change", CRON)


def test_schedules_without_a_file_and_duplicates_are_deleted(body):
    twice = [there(body), there(body, name="s/2"), there(body, name="s/3", displayName="old")]

    changes = differences([wanted(body)], twice, now=NOW)

    done = [(change.action, change.name, (change.existing or {})["name"]) for change in changes]
    assert done == [
        ("delete", "nightly", "s/2"),
        ("keep", "nightly", "s/1"),
        ("delete", "old", "s/3"),
    ]


def test_schedule_with_a_past_end_is_not_created(body):
    with pytest.raises(ConfigError, match="nightly: end: 2026-01-01T00:00:00Z"):
        differences([wanted({**body, "endTime": "2026-01-01T00:00:00Z"})], [], now=NOW)


def test_run_now_has_its_own_run_label(body):
    run = run_request_of(body, run="nightly-1")

    assert run["displayName"] == run["labels"]["trainyard_run"] == "nightly-1"
    assert run["labels"][SCHEDULE_LABEL] == "nightly"
    assert run["runtimeConfig"] == body[REQUEST]["pipelineJob"]["runtimeConfig"]


@pytest.mark.parametrize(
    ("body", "is_paused", "shown"),
    [
        (
            {},
            False,
            ["Sun 2026-10-25 02:30 CEST", "Mon 2026-10-26 02:30 CET", "Tue 2026-10-27 02:30 CET"],
        ),
        (
            {"startTime": "2026-12-01T01:30:00Z", "endTime": "2026-12-02T00:00:00Z"},
            False,
            ["Tue 2026-12-01 02:30 CET"],
        ),
        ({"endTime": "2026-10-01T00:00:00Z"}, False, ["none, it has ended"]),
        ({}, True, ["none, it is paused"]),
    ],
    ids=["three", "between", "ended", "paused"],
)
def test_the_next_runs_are_in_the_zone_of_the_schedule(body, is_paused, shown):
    cron = "TZ=Europe/Berlin 30 2 * * *"
    schedule = Wanted(body={"cron": cron, **body}, is_paused=is_paused, catch_up=False)
    now = datetime.datetime(2026, 10, 24, 12, tzinfo=datetime.UTC)
    assert next_runs(schedule, now=now) == shown
