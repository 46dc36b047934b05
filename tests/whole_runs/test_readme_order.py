"""README's commands on the model, in their order and twice: what each run says, keeps and leaves,
and that none lowers what served before.
"""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from pipelines.runs.gains import measure_gains
from tests.support.processes.whole_runs import Home, ended
from tools.outputs import heads_of
from tools.pages import ROOT, commands_of
from tools.pictures import PICTURES

GATE_EXIT = 3
MODEL = ("run mnist", "endpoints predict mnist", "models rollback mnist")
ANY_ACCURACY = ("--keep-endpoint", "--set", "thresholds.accuracy=0")
LONGER = ("--set", "train.epochs=5")
# Of a run that has nothing new.
CACHED = {"prepare-examples", "plan-training", "train"}


def versions_of(home: Home) -> tuple[list[str], str]:
    """Return the numbers of all versions of the model, and of the default one."""
    versions = json.loads(home.call("models", "list", "--json"))
    [default] = [one["versionId"] for one in versions if "default" in one["versionAliases"]]
    return sorted(one["versionId"] for one in versions), default


def commands() -> list[tuple[str, ...]]:
    """Return the arguments of README's commands on the model, in their order."""
    lines = [command.words for command in commands_of(ROOT / "README.md")]
    on_mnist = [line[1:] for line in lines if " ".join(line[1:]).startswith(MODEL)]
    return [("run", "mnist"), *on_mnist]  # `make run-local` is the first one


def check_first(home: Home, output: str) -> None:
    """Check what a first run, which deletes its endpoint, prints, writes and leaves."""
    first = home.summary()
    states = home.states()
    assert states.pop("serve-known") == "NOT_RUN"
    assert set(states.values()) == {"SUCCEEDED"}
    assert (first["state"], first["verdict"]) == ("SUCCEEDED", "passed")
    assert first["is_new_version"]
    with Image.open(PICTURES / "run.png") as picture:
        shown = heads_of(picture.info["Description"])[1:]
    assert [head for head in heads_of(output) if head in shown] == shown, "make pictures"
    assert 0 <= first["metrics"]["accuracy"] <= 1
    assert first["model_version"].endswith("@1")
    assert len(re.findall(r"^ +\d  \d \([01]\.\d{6}\)  \d$", output, re.MULTILINE)) == 10
    assert home.cached() == set()
    assert "data:image/png" in home.file("evaluate/report.html")
    metrics = {"accuracy", "loss", "f1", "num_examples"}
    assert set(json.loads(home.file("evaluate/metrics"))) == metrics
    assert json.loads(home.file("release-model/metrics"))["max_difference"] <= 1e-5
    assert home.file("report.html")
    home.assert_nothing_is_left()


def check_again(home: Home, output: str, second: dict) -> str:
    """Check a run with nothing new, which keeps its endpoint; return the request it writes."""
    again = home.summary()
    assert home.cached() == CACHED
    assert re.search("train +from the cache", output)
    assert "evaluated before, with the same examples, settings and champion" in home.task_log(
        "evaluate"
    )
    assert "version 1" in " ".join(second["reasons"])
    assert (second["is_new_version"], again["is_new_version"]) == (True, False)
    for fact in ("metrics", "model_version", "reasons"):
        assert again[fact] == second[fact]
    assert "no version is registered" in output
    return re.search(r"endpoints predict mnist --instances (\S+)", output)[1]


@pytest.mark.timeout(600)
def test_after_each_command_of_readme_the_default_is_not_surely_worse(home):
    evaluations, runs, default = dict[str, dict](), list[dict](), ""
    for action, *arguments in commands() * 2:
        if action == "run":
            code, output = home.run(*arguments[1:], "--set", "thresholds.accuracy=0")
            assert code == 0, output
            runs.append(home.summary())
            if len(runs) == 1:
                check_first(home, output)
            elif len(runs) == 3:
                instances = check_again(home, output, runs[1])
            evaluated = json.loads(home.file("evaluate/evaluation"))
            evaluations.setdefault(runs[-1]["model_version"].removeprefix("mnist@"), evaluated)
        elif action == "endpoints":
            words = [instances if word == "FILE" else word for word in arguments]
            answer = json.loads(home.call(action, *words))
            assert len(answer) == len(json.loads(Path(instances).read_text())["instances"])
            assert answer[0].keys() >= {"class", "probabilities"}
        else:
            ended(home.start(action, *arguments))
        before, (versions, default) = default, versions_of(home)
        if action == "run" and before not in ("", default):
            gain = measure_gains(evaluations[before], evaluations[default]).by_metric["accuracy"]
            assert gain.high >= 0, (arguments, gain)

    assert versions == ["1", "2"], "the same models are the same versions"
    first_round, second_round = ["promoted", "promoted"], ["same-model", "rejected", "rejected"]
    assert [run["outcome"] for run in runs] == [*first_round, "same-model", *second_round]
    assert "to promote it: trainyard models approve mnist@2" in output, "the rollback lasts"
    home.call("models", "approve", "mnist@2")
    assert versions_of(home) == (["1", "2"], "2")
    check_older_version(home)


def check_older_version(home: Home) -> None:
    """Check that a model that was trained anew and equals a version is that version."""
    code, output = home.run(*ANY_ACCURACY, "--set", "gate.keep_challenger=true")

    assert code == GATE_EXIT, output
    note, *_, comparison = home.summary()["reasons"]
    assert note == "the model is that of version 1"
    assert "surely worse by" in comparison
    assert note in home.file("evaluate/report.html")
    assert versions_of(home) == (["1", "2"], "2")

    home.call("models", "set-default", "mnist@1")
    code, output = home.run(*ANY_ACCURACY, *LONGER)

    assert code == 0, output
    summary = home.summary()
    assert (summary["outcome"], summary["model_version"]) == ("promoted", "mnist@2")
    assert not summary["is_new_version"]
    assert "mnist@2, the default again: the model is the same, so no version" in output
    assert versions_of(home) == (["1", "2"], "2")
    assert "mnist@2 100%" in home.call("endpoints", "list")
