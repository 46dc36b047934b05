"""README's commands on the model, in their order and twice: none lowers what served before."""

import json

import pytest

from pipelines.runs.gains import measure_gains
from tests.docs.pages import ROOT, commands_of
from tests.support.processes.whole_runs import Home, ended

GATE_EXIT = 3
MODEL = ("run mnist", "endpoints predict mnist", "models rollback mnist")
ANY_ACCURACY = ("--keep-endpoint", "--set", "thresholds.accuracy=0")
LONGER = ("--set", "train.epochs=5")


@pytest.fixture
def home(tmp_path, tiny_mnist):
    home = Home(tmp_path / "home", tiny_mnist(num_train=64, num_test=200))
    with home.serving():
        yield home


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


@pytest.mark.timeout(600)
def test_after_each_command_of_readme_the_default_is_not_surely_worse(home):
    evaluations, outcomes, default = dict[str, dict](), [], ""
    for action, *arguments in commands() * 2:
        if action == "run":
            code, output = home.run(*arguments[1:], "--set", "thresholds.accuracy=0")
            assert code == 0, output
            summary = home.summary()
            outcomes.append(summary["outcome"])
            evaluated = json.loads(home.file("evaluate/evaluation"))
            evaluations.setdefault(summary["model_version"].removeprefix("mnist@"), evaluated)
        elif action == "endpoints":
            instances = str(home.state / "runs" / "latest" / "evaluate" / "golden")
            home.call(action, *[instances if word == "FILE" else word for word in arguments])
        else:
            ended(home.start(action, *arguments))
        before, (versions, default) = default, versions_of(home)
        if action == "run" and before not in ("", default):
            gain = measure_gains(evaluations[before], evaluations[default]).by_metric["accuracy"]
            assert gain.high >= 0, (arguments, gain)

    assert versions == ["1", "2"], "the same models are the same versions"
    assert outcomes[:3] == ["promoted", "promoted", "same-model"]
    assert outcomes[3:] == ["same-model", "rejected", "rejected"], "the person's rollback lasts"
    assert "to promote it: trainyard models approve mnist@2" in output
    home.call("models", "approve", "mnist@2")
    assert versions_of(home) == (["1", "2"], "2")


@pytest.mark.timeout(600)
def test_a_model_of_an_older_version_is_that_version(home):
    assert home.run(*ANY_ACCURACY)[0] == 0
    assert home.run(*ANY_ACCURACY, *LONGER)[0] == 0
    assert versions_of(home) == (["1", "2"], "2")

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
    code, output = home.run(*ANY_ACCURACY, *LONGER)
    assert (code, home.summary()["outcome"]) == (0, "same-model"), output
    assert home.summary()["reasons"] == summary["reasons"][1:], "compared with version 1 again"
