"""Decisions of people: what stands in a version's description and labels, and what runs obey."""

import re

import pytest

from components.model_version.decisions import (
    Decision,
    decide,
    decisions_of,
    described,
    stop_of,
    update_version,
    verdict_of,
)
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import (
    HELD_LABEL,
    MODEL_LABEL,
    REJECTED,
    STATE_LABEL,
    WAITING,
)
from components.shared.vertex.resource_name import ResourceName

pytestmark = pytest.mark.fast

NAME = ResourceName.from_name("projects/p/locations/l/models/5@2")
REJECTION = "[2026-11-26T11:31:39.123Z rejected by ann@desk] fares too low"


class Registry:
    """The part of the API that changes one version; another change comes before the first patch."""

    def __init__(self, version: dict, *, num_conflicts: int = 0) -> None:
        self.version, self.num_conflicts = {"etag": "0", "versionId": "2", **version}, num_conflicts

    def get(self, _: str) -> dict:
        return dict(self.version)

    def patch(self, path: str, body: dict) -> None:
        if self.num_conflicts:
            self.num_conflicts -= 1
            labels = {**self.version.get("labels", {}), f"other-{self.num_conflicts}": "x"}
            self.version |= {"labels": labels, "etag": f"after {self.num_conflicts}"}
        if body["etag"] != self.version["etag"]:
            raise VertexError(code=409, status="ABORTED", message="changed meanwhile")
        fields = path.partition("updateMask=")[2].split(",")
        self.version |= {field: body[field] for field in fields}


def version(number: int, description: str = "", **labels: str) -> dict:
    return {"versionId": str(number), "versionDescription": description, "labels": labels}


def test_a_decision_keeps_who_when_and_the_whole_reason_beside_the_verdict():
    registry = Registry({"versionDescription": "auc 0.8 is at least 0.7"})

    decide(registry, NAME, REJECTED, by="ann@desk", reason="Größe:\n 5 % WRONG [see] \x1b[31m")

    [found] = decisions_of(registry.version)
    assert (found.kind, found.version, found.by) == (REJECTED, "2", "ann@desk")
    assert found.reason == "Größe: 5 % WRONG [see] [31m"
    assert verdict_of(registry.version) == "auc 0.8 is at least 0.7"
    assert registry.version["labels"] == {STATE_LABEL: REJECTED}


def test_another_verdict_keeps_the_decisions():
    found = version(2, f"old verdict\n{REJECTION}")

    assert described(found, "new; verdict") == f"new; verdict\n{REJECTION}"
    assert decisions_of(found) == [
        Decision(
            kind=REJECTED,
            version="2",
            time="2026-11-26T11:31:39.123Z",
            by="ann@desk",
            reason="fares too low",
        )
    ]


def test_a_change_that_came_between_is_not_lost():
    registry = Registry({"labels": {"team": "a"}}, num_conflicts=3)

    decide(registry, NAME, "held", by="ann@desk", reason="freeze")

    assert {"team", "other-0", "other-1", "other-2", HELD_LABEL} == set(registry.version["labels"])
    decide(registry, NAME, "released", by="ann@desk", reason="")
    assert HELD_LABEL not in registry.version["labels"]
    assert [one.kind for one in decisions_of(registry.version)] == ["held", "released"]


def test_changes_without_end_are_an_error():
    registry = Registry({}, num_conflicts=1000)

    with pytest.raises(VertexError, match="changed meanwhile"):
        update_version(registry, NAME, lambda _: {"labels": {}})


@pytest.mark.parametrize(
    ("labels", "stop"),
    [
        ({}, ""),
        (
            {STATE_LABEL: REJECTED, MODEL_LABEL: "abc"},
            r"rejected: .* version 2 \(.* trainyard models approve MODEL@2\), rejected by ann@",
        ),
        ({STATE_LABEL: REJECTED, MODEL_LABEL: "other"}, ""),
        ({STATE_LABEL: REJECTED}, ""),
        ({STATE_LABEL: WAITING, MODEL_LABEL: "abc"}, "waiting: version 2 is the same model"),
        ({HELD_LABEL: "t", MODEL_LABEL: "other"}, "held: by somebody"),
        ({HELD_LABEL: "t", STATE_LABEL: REJECTED, MODEL_LABEL: "abc"}, "held: "),
    ],
)
def test_a_run_is_stopped_by_a_hold_and_by_a_rejection_of_the_same_files(labels, stop):
    versions = [version(1), version(2, REJECTION, **labels)]

    found = stop_of(versions, "abc")

    assert re.match(stop, found) if stop else found == ""
    assert stop_of([version(1)], "") == ""
