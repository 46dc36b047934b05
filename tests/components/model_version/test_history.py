import pytest

from components.model_version.history import (
    BY_HAND,
    MAX_EVENTS,
    PREFIX,
    ROLLBACK,
    cause_of,
    history_of,
    with_event,
)
from components.shared.vertex.labels import CANDIDATE, PROMOTED, RUN_LABEL, STATE_LABEL

pytestmark = pytest.mark.fast


def version(number: int, **labels: str) -> dict:
    return {
        "versionId": str(number),
        "versionCreateTime": f"2026-01-0{number}T00:00:00Z",
        "versionDescription": f"reasons of {number}",
        "labels": labels,
    }


def at(day: int) -> str:
    return f"{PREFIX}202601{day:02d}t120000000z"


def test_each_change_of_the_default_has_a_period():
    versions = [
        version(1),
        version(
            2, **{STATE_LABEL: PROMOTED, at(3): cause_of(PROMOTED, "run-2"), RUN_LABEL: "run-2"}
        ),
        version(3, **{STATE_LABEL: PROMOTED, at(5): cause_of(PROMOTED, "run-3")}),
        version(4, **{STATE_LABEL: CANDIDATE}),
    ]
    versions[0]["labels"] |= {at(6): BY_HAND}
    versions[1]["labels"] |= {at(4): cause_of(PROMOTED, "run-2"), at(7): ROLLBACK}

    found = history_of(versions)

    assert [(one.version, one.cause, one.actor) for one in found] == [
        ("1", "uploaded", ""),
        ("2", "promoted", "run-2"),
        ("3", "promoted", "run-3"),
        ("1", "set-default", ""),
        ("2", "rollback", ""),
    ]
    assert found[1].since == "2026-01-03T12:00:00.000Z", "the completed promotion is the same one"
    assert [one.until for one in found] == [*[one.since for one in found[1:]], ""]
    assert [one.reasons for one in found] == ["", "reasons of 2", "reasons of 3", "", ""]


def test_the_newest_events_and_all_other_labels_are_kept():
    labels = {"team": "vision"}
    for day in range(1, MAX_EVENTS + 2):
        labels[at(day)] = BY_HAND

    found = with_event(labels, ROLLBACK)

    events = sorted(name for name in found if name.startswith(PREFIX))
    assert len(events) == MAX_EVENTS
    assert found[events[-1]] == ROLLBACK
    assert at(2) not in found
    assert found["team"] == "vision"


def test_causes_fit_into_a_label():
    assert cause_of(PROMOTED, "mnist-3") == "promoted_mnist-3"
    assert cause_of(PROMOTED, "") == "promoted"
    assert len(cause_of(PROMOTED, "r" * 100)) == 63
    assert cause_of(ROLLBACK) == ROLLBACK
    assert cause_of(ROLLBACK, "Größe: 5 % WRONG") == "rollback_gr-e-5-wrong"
    assert len(cause_of(ROLLBACK, "word " * 30)) <= 63
