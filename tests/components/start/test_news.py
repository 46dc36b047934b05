"""Verdicts on the input of a run, and the last training before it."""

import datetime
import json

import pytest

from components.model_version.champion import Champion
from components.prepare_examples.fingerprint import InputData
from components.prepare_examples.settings.options import PrepareOptions
from components.shared.vertex.labels import SCHEDULE_LABEL
from components.start.news import News, Training, last_training, look_for_news
from components.start.trigger import COMPARE, NOTHING_NEW, TRAIN, Trigger
from tests.support.data.run_records import pipeline, task
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast
NOW = datetime.datetime(2026, 11, 22, 3, tzinfo=datetime.UTC)
VERSION = "projects/p/locations/l/models/5@3"
A, B, C = (["/d/a.csv", 1, "0"], ["/d/b.csv", 1, "1"], ["/d/c.csv", 2, "2"])


def data(*files, digest="new"):
    return InputData(fingerprint=digest, files=list(files))


@pytest.fixture
def champion(tmp_path):
    """The folder of a model that has learnt from A and B."""
    text = data(A, B, digest="old").to_json(PrepareOptions())
    (tmp_path / "input.json").write_text(text)
    return tmp_path


def look(folder, found, *, last=None, version=VERSION, **trigger):
    return look_for_news(
        Trigger(**trigger),
        data=found,
        champion=Champion(version=version, model_uri=str(folder)),
        last=last,
        now=NOW,
    )


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"new_file": True}, "trigger has no 'new_file'; did you mean 'new_files'"),
        ({"new_files": "yes"}, "trigger.new_files is 'yes'; it must be true or false"),
        ({"drift": -1}, "trigger.drift is -1; it must be a number from 0"),
        ({"cool_down": "7"}, "trigger.cool_down is '7'; it must be a number of hours, days or"),
    ],
)
def test_a_wrong_condition_is_named_with_its_value(values, problem):
    with pytest.raises(ConfigError, match=problem):
        Trigger(**values)


def test_every_run_trains_without_a_trigger_or_a_promoted_version(champion):
    assert look(champion, data(A, B, digest="old")).verdict == TRAIN
    assert look("", data(A), new_files=True, drift=0.1, version="").verdict == TRAIN


@pytest.mark.parametrize(
    ("found", "verdict", "words"),
    [
        (data(A, B, digest="old"), NOTHING_NEW, "the data is that of version 3"),
        (data(B), NOTHING_NEW, "version 3 has seen every file"),
        (data(B, C), TRAIN, "1 new file since version 3: c.csv"),
        (data(["/d/b.csv", 1, "changed"]), TRAIN, "1 new file since version 3: b.csv"),
        (data("p.d.t of 2026-11-21"), TRAIN, "1 new file since version 3: p.d.t of 2026-11-21"),
        (data(*[[str(n), 1, ""] for n in range(1001)]), TRAIN, "the data differs from that of"),
    ],
    ids=["same", "window moved on", "new", "changed", "BigQuery", "too many to list"],
)
def test_new_files_are_those_that_the_promoted_version_has_not_seen(
    champion, found, verdict, words
):
    news = look(champion, found, new_files=True)
    assert news.verdict == verdict
    assert news.reasons[0].startswith(words)


def test_a_version_without_a_record_of_its_data_is_replaced(tmp_path):
    assert look(tmp_path, data(A), new_files=True) == News(
        verdict=TRAIN, reasons=("version 3 has no record of its data",)
    )


def test_drift_is_looked_at_only_if_no_file_is_new(champion):
    assert look(champion, data(C), new_files=True, drift=0.2).verdict == TRAIN
    news = look(champion, data(A), new_files=True, drift=0.2)
    assert news.verdict == COMPARE
    assert look(champion, data(C), drift=0.2).verdict == COMPARE


def test_nothing_is_new_during_the_cool_down(champion):
    last = Training(run="taxi-7", moment=NOW - datetime.timedelta(days=2))
    assert look(champion, data(C), new_files=True, cool_down="3d", last=last) == News(
        verdict=NOTHING_NEW, reasons=("taxi-7 trained 48 h ago; the cool-down is 3d",)
    )
    assert look(champion, data(C), cool_down="3d").verdict == TRAIN


class Runs:
    """The API, with the runs of a schedule."""

    parent = "projects/p/locations/l"

    def __init__(self, *runs):
        self.runs = {run["name"]: run for run in runs}
        self.queries = []

    def list_resources(self, collection, *, filter, **query):
        self.queries.append(filter)
        assert query["orderBy"] == "create_time desc"
        newest = sorted(self.runs.values(), key=lambda run: run["createTime"], reverse=True)
        return [{key: run[key] for key in query["readMask"].split(",")} for run in newest]

    def find(self, name):
        return self.runs.get(name)


def run(name, day, *, trained=True, model="taxi"):
    """A run of a night, whose creation is seconds after that of the night before."""
    told = f"2026-11-{day:02}T03:00:00+00:00"
    details = [task("start", run_time=told)]
    return {
        "name": f"{Runs.parent}/pipelineJobs/{name}",
        "createTime": f"2026-11-01T10:00:{day:02}Z",
        "labels": {SCHEDULE_LABEL: "nightly"},
        "pipelineSpec": pipeline("start", "train"),
        "runtimeConfig": {"parameterValues": {"model_name": model}},
        "jobDetail": {"taskDetails": [*details, *([task("train")] if trained else [])]},
    }


@pytest.mark.parametrize(
    ("days", "expected"), [(2, None), (4, "night-19"), (30, "night-19")], ids=["2d", "4d", "30d"]
)
def test_the_last_training_is_that_of_the_newest_run_that_trained(days, expected):
    """By the times that the runs were told: a fast clock starts many nights in a minute."""
    api = Runs(
        run("night-22", 22),
        run("night-21", 21, trained=False),
        run("night-20", 20, model="other"),
        run("night-19", 19),
        run("night-12", 12),
    )
    within = datetime.timedelta(days=days)
    found = last_training(api, run="night-22", model_name="taxi", now=NOW, within=within)
    assert (found.run if found else None) == expected
    assert api.queries == [f'labels.{SCHEDULE_LABEL}="nightly"']


def test_the_record_of_an_input_lists_its_files_and_days():
    options = PrepareOptions(dates=("2026-10-01", "2026-10-30"))
    content = json.loads(data(A, B).to_json(options))
    assert content == {
        "fingerprint": "new",
        "num_files": 2,
        "files": [A, B],
        "dates": ["2026-10-01", "2026-10-30"],
    }
