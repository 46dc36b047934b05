"""`trainyard plan` foresees what a run executes; `trainyard step` changes nothing of a run."""

import json
import random

from tools.soak.planned_edits import Edited, misjudged, planned_and_actual

READS = (("runs", "list"), ("models", "list"), ("models", "history", "spent"))


def contents(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith("step-") for part in path.parts)
    }


def reasons_of(plan):
    return {task["name"]: task["reason"] for task in plan["tasks"]}


def plan(home, edited):
    return json.loads(home.call("plan", str(edited.folder), *edited.flags, "--json"))


def num_examples(outputs):
    splits = ("train", "eval", "test")
    return sum(int(outputs[f"examples.num_{split}_examples"]) for split in splits)


def test_a_plan_foresees_what_runs_execute_and_a_step_changes_nothing_of_them(home):
    edited = Edited(home.folder / "spent", random.Random(1))
    planned, actual = planned_and_actual(home, edited)
    assert not misjudged(planned, actual), (planned, actual)
    edited.settings["train.epochs"] = 2
    reasons = reasons_of(plan(home, edited))
    assert reasons["prepare-examples"].startswith("as in spent-")
    assert "train.epochs 1 → 2 since spent-" in reasons["plan-training"]

    before = [home.call(*words, "--json") for words in READS]
    assert json.loads(before[2])
    files = contents(home.state / "runs")

    def step(*arguments):
        words = ("step", "latest", *arguments, "--workload", "spent", "--json")
        found = json.loads(home.call(*words))
        return found["before"], found["now"]

    then, stricter = step("evaluate", "--set", "thresholds.rmse=0.001")
    assert (then["verdict"], stricter["verdict"]) == ("passed", "failed")
    assert then["metrics.rmse"] == stricter["metrics.rmse"]
    workload = edited.folder / "workload.py"
    workload.write_text(workload.read_text().replace('"plan")', '"plan", values=["basic"])'))
    then, prepared = step("prepare-examples", "--set", "max_examples=100")
    assert num_examples(then) == 300
    assert 0 < num_examples(prepared) <= 100
    assert then["examples.notes"] != prepared["examples.notes"]
    table = home.call("step", "latest", "plan-training", "--workload", "spent")
    assert table.split()[:4] == ["OUTPUT", "BEFORE", "NOW", "CHANGE"]

    assert [home.call(*words, "--json") for words in READS] == before
    assert contents(home.state / "runs") == files

    for edit, file in ((edited.code, "workload.py"), (edited.data, "rows.csv")):
        edit()
        reasons = reasons_of(plan(home, edited))
        assert f"{file} changed since spent-" in reasons["prepare-examples"]
