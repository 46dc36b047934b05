"""What the first step says about the run's data."""

import json

import pytest

from components.model_version.champion import Champion
from components.prepare_examples.fingerprint import InputData
from components.prepare_examples.settings.options import PrepareOptions
from components.start import step
from components.start.step import Start
from components.start.trigger import COMPARE, TRAIN

pytestmark = pytest.mark.fast
CHAMPION = Champion(version="projects/p/locations/l/models/5@3", model_uri="/models/5/3")
BEFORE = Champion(version="projects/p/locations/l/models/5@2", model_uri="/models/5/2")


@pytest.fixture
def days(tmp_path, taxi_rows, write_csv):
    """The folder of two days' trips."""
    for day in ("2015-05-01", "2015-05-02"):
        write_csv(taxi_rows(20), f"{day}.csv")
    return tmp_path


def look(days, *, trigger: dict, prepare: dict, champion: Champion = CHAMPION) -> Start:
    return step.start_run(
        None,  # the registry is looked at only for a repeated run
        run="r",
        model_name="taxi",
        workload="taxi",
        data_dir=str(days),
        trust_files=False,
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

    prepare["run_date"] = "2015-05-04"
    again = look(days, trigger={}, prepare=prepare, champion=promoted)

    assert (again.prepare, again.comparison) == (first.prepare, first.comparison)
