"""`trainyard step` executes a task of a run again, and leaves the run as it is."""

import json
import random

from tests.support.processes.planned_edits import Edited


def contents(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith("step-") for part in path.parts)
    }


def step(home, *arguments):
    return json.loads(home.call("step", "latest", *arguments, "--workload", "spent", "--json"))


def test_a_step_has_its_own_outputs_and_changes_neither_the_run_nor_the_registry(home):
    edited = Edited(home.folder / "spent", random.Random(1))
    home.call("run", "spent/")
    reads = (("runs", "list"), ("models", "list"), ("models", "history", "spent"))
    before = [home.call(*words, "--json") for words in reads]
    files = contents(home.state / "runs")

    stricter = step(home, "evaluate", "--set", "thresholds.rmse=0.001")
    assert stricter["before"]["verdict"] == "passed"
    assert stricter["now"]["verdict"] == "failed"
    rmse = [stricter[moment]["metrics"]["rmse"] for moment in ("before", "now")]
    assert rmse[0] == rmse[1]
    workload = edited.folder / "workload.py"
    workload.write_text(workload.read_text().replace('"plan")', '"plan", values=["basic"])'))
    prepared = step(home, "prepare-examples", "--set", "max_examples=100")
    examples = [prepared[moment]["examples"] for moment in ("before", "now")]
    assert num_examples(examples[0]) == 300
    assert 0 < num_examples(examples[1]) <= 100
    assert examples[0]["notes"] != examples[1]["notes"]
    table = home.call("step", "latest", "plan-training", "--workload", "spent")
    assert table.split()[:4] == ["OUTPUT", "BEFORE", "NOW", "CHANGE"]

    assert [home.call(*words, "--json") for words in reads] == before
    assert contents(home.state / "runs") == files


def num_examples(metadata):
    return sum(int(metadata[f"num_{split}_examples"]) for split in ("train", "eval", "test"))
