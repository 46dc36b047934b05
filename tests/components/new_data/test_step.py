"""What the first step says about the run's data."""

import json

import pytest

from components.new_data.step import RunInput
from components.new_data.trigger import COMPARE, TRAIN
from tests.support.data.taxi_days import look_at_days, write_taxi_days

pytestmark = pytest.mark.fast
CHAMPION = {"champion": "projects/p/locations/l/models/5@3", "champion_uri": "/models/5/3"}


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    folder = tmp_path_factory.mktemp("days")
    write_taxi_days(folder, first="2015-05-01", last="2015-05-03")
    return folder


def look(days, *, trigger: dict, prepare: dict) -> RunInput:
    return look_at_days(
        days,
        prepare=json.dumps({"files": [f"{days}/*.csv"], **prepare}),
        trigger=json.dumps(trigger),
        **CHAMPION,
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
def test_the_next_step_gets_the_champion_only_to_compare_with_it(
    days, trigger, prepare, verdict, is_compared
):
    """Otherwise each promotion would make what it has cached useless."""
    found = look(days, trigger=trigger, prepare=prepare)

    assert found.verdict == verdict
    expected = tuple(CHAMPION.values()) if is_compared else ("", "")
    assert (found.champion, found.champion_uri) == expected
