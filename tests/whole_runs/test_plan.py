"""`trainyard plan` foresees what a run executes."""

import json
import random

from tests.support.processes.planned_edits import Edited, misjudged, planned_and_actual


def test_plans_before_and_after_edits_are_what_the_runs_do(home):
    edited = Edited(home.folder / "spent", random.Random(1))
    reasons = {}
    for edit in (None, None, ("train.epochs", 2), edited.code, edited.data):
        if isinstance(edit, tuple):
            edited.settings[edit[0]] = edit[1]
        elif edit:
            edit()
        planned, actual = planned_and_actual(home, edited)
        assert not misjudged(planned, actual), (edit, planned, actual)
        reasons[edit] = {task["name"]: task["reason"] for task in planned["tasks"]}

    assert reasons[None]["train"].startswith("as in spent-")
    assert "train.epochs 1 → 2 since spent-" in reasons["train.epochs", 2]["plan-training"]
    assert reasons[edited.code]["prepare-examples"].startswith("workload.py changed since spent-")
    assert "rows.csv changed since spent-" in reasons[edited.data]["prepare-examples"]
    assert json.loads(home.call("models", "history", "spent", "--json"))
