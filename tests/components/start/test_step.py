"""What the first step says about the run's data."""

import json

import pytest

from components.model_version.champion import Champion
from components.prepare_examples.fingerprint import InputData
from components.prepare_examples.settings.options import PrepareOptions
from components.start import step
from components.start.step import Start
from components.start.trigger import COMPARE, TRAIN
from tests.support.data.taxi_days import look_at_days, write_taxi_days

pytestmark = pytest.mark.fast
CHAMPION = Champion(version="projects/p/locations/l/models/5@3", model_uri="/models/5/3")
BEFORE = Champion(version="projects/p/locations/l/models/5@2", model_uri="/models/5/2")


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    write_taxi_days(folder, first="2015-05-01", last="2015-05-03")
    return folder


def look(days, *, trigger: dict, prepare: dict, champion: Champion = CHAMPION) -> Start:
    return look_at_days(
        days,
        prepare=json.dumps({"files": [f"{days}/*.csv"], **prepare}),
        trigger=json.dumps(trigger),
        champion=champion,
        schedule_time="",
        create_time="2015-05-04T00:00:00Z",
    )


@pytest.mark.parametrize(
    ("trigger", "prepare", "verdict", "is_compared"),
    [
        pytest.param({}, {}, TRAIN, False, id="by default"),
        pytest.param({"new_files": True}, {}, TRAIN, False, id="new files"),
        pytest.param({"drift": 0.2}, {}, COMPARE, True, id="drift"),
        pytest.param({}, {"baseline": "previous"}, TRAIN, True, id="baseline"),
    ],
)
def test_the_next_steps_get_the_champion_only_to_compare_with_it(
    days, trigger, prepare, verdict, is_compared
):
    """Otherwise each promotion would make what they have cached useless."""
    found = look(days, trigger=trigger, prepare=prepare)

    assert found.verdict == verdict
    assert found.champion_uri == CHAMPION.model_uri
    if is_compared:
        asked = json.loads(found.comparison)
        assert (asked["version"], asked["model_uri"]) == (CHAMPION.version, CHAMPION.model_uri)
    else:
        assert found.comparison == ""


def test_a_run_on_the_champions_data_repeats_its_comparison(days, tmp_path, monkeypatch):
    """So the plan and the training of a repeated run come from the cache."""
    monkeypatch.setattr(step, "find_compared", lambda api, version: BEFORE)
    prepare = {"baseline": "previous"}
    first = look(days, trigger={}, prepare=prepare, champion=BEFORE)
    record = InputData(fingerprint=first.fingerprint, files=[]).to_json(PrepareOptions())
    (tmp_path / "input.json").write_text(record)
    promoted = Champion(version=CHAMPION.version, model_uri=str(tmp_path))

    again = look(days, trigger={}, prepare=prepare, champion=promoted)

    assert again.comparison == first.comparison
