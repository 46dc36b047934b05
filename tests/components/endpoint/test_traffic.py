import pytest

from components.endpoint.traffic import all_to, handed_over, restored, scaled, with_share, without

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("split", "percentage", "expected"),
    [
        pytest.param({}, 10, {"new": 100}, id="the only one gets all"),
        pytest.param({"old": 100}, 10, {"old": 90, "new": 10}, id="canary"),
        pytest.param({"old": 90, "new": 10}, 50, {"old": 50, "new": 50}, id="canary grows"),
        pytest.param({"a": 75, "b": 25}, 20, {"a": 60, "b": 20, "new": 20}, id="by proportion"),
        pytest.param({"a": 50, "b": 50}, 33, {"a": 34, "b": 33, "new": 33}, id="rounded"),
        pytest.param({"old": 100}, 0, {"old": 100, "new": 0}, id="nothing"),
    ],
)
def test_a_share_is_taken_from_the_others_in_proportion(split, percentage, expected):
    found = with_share(split, "new", percentage=percentage)

    assert found == expected
    assert sum(found.values()) == 100


@pytest.mark.parametrize(
    ("split", "heir", "expected"),
    [
        pytest.param({"gone": 100}, "", {}, id="the last one"),
        pytest.param({"gone": 100, "old": 0}, "old", {"old": 100}, id="an idle heir"),
        pytest.param({"gone": 10, "a": 60, "b": 30}, "a", {"a": 67, "b": 33}, id="by proportion"),
        pytest.param({"gone": 0, "a": 100}, "a", {"a": 100}, id="nothing to inherit"),
    ],
)
def test_the_others_get_the_share_of_a_removed_model(split, heir, expected):
    assert without(split, "gone", heir=heir) == expected


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param({"a": 60, "b": 30, "new": 10}, {"a": 70, "b": 30}, None, id="unchanged"),
        pytest.param({"a": 60, "b": 30, "new": 10}, {"a": 70}, {"a": 100}, id="one undeployed"),
        pytest.param(
            {"a": 20, "b": 70, "new": 10}, {"a": 70, "b": 30}, {"a": 22, "b": 78}, id="moved"
        ),
        pytest.param({"b": 100, "new": 0}, {"a": 70, "b": 30}, {"b": 100, "new": 0}, id="idle"),
        pytest.param({"new": 100}, {}, {"new": 100}, id="the only one left"),
        pytest.param({"b": 50, "new": 50}, {"new": 5, "b": 95}, {"b": 95, "new": 5}, id="its own"),
    ],
)
def test_a_moved_share_goes_back_but_changes_of_others_stay(now, before, expected):
    moved = {"a": 60, "b": 30, "new": 10}

    found = restored(now, "new", before=before, moved=moved)

    assert {**found, "new": found.get("new", 0)} == {"new": 0, **(expected or before)}


def test_all_traffic_or_one_share_moves():
    assert all_to({"a": 60, "b": 40}, "b") == {"a": 0, "b": 100}
    assert handed_over({"a": 60, "b": 40}, "b", "c") == {"a": 60, "b": 0, "c": 40}


def test_whole_percentages_always_add_up():
    for total in range(1, 101):
        assert sum(scaled({"a": 33, "b": 33, "c": 34}, total).values()) == total
