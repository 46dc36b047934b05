"""What a person decides about a model lasts: schedules, runs in progress and resumed runs obey."""

import json
import re

import pytest
import yaml

from tests.support.processes.whole_runs import Home, ended

ANY_ACCURACY = ("--keep-endpoint", "--set", "thresholds.accuracy=0")
FAILED_EXIT = 1


@pytest.fixture
def home(tmp_path, tiny_mnist):
    home = Home(tmp_path / "home", tiny_mnist(num_train=64, num_test=20))
    with home.serving():
        yield home


def default_of(home: Home) -> str:
    """Return the number of the default version, as `models list` shows it."""
    return re.search(r"^mnist +(\d+) +.*default", home.call("models", "list"), re.MULTILINE)[1]


def versions_of(home: Home) -> list[str]:
    return re.findall(r"^mnist +(\d+)", home.call("models", "list"), re.MULTILINE)


@pytest.fixture
def night(home, tmp_path, taxi_rows, write_csv):
    """Run a schedule's next run to its end; return its output and outcome."""
    trips = write_csv(taxi_rows(200))

    def run(**parameters) -> tuple[str, str]:
        schedule = {
            "workload": "taxi",
            "cron": "0 3 * * *",
            "paused": True,
            "parameters": {
                "model_name": "mnist",  # of which the helpers above read the versions
                "prepare.files": [str(trips)],
                "train.epochs": 1,
                "thresholds.auc": 0,
                "thresholds.accuracy": 0,
                "gate.baseline": "none",
                "gate.folds": 0,
                "gate.min_gain": -2,
                "keep_endpoint": True,
                **parameters,
            },
        }
        folder = tmp_path / "schedules"
        folder.mkdir(exist_ok=True)
        (folder / "nightly.yaml").write_text(yaml.safe_dump(schedule))
        home.call("schedule", "apply", str(folder))
        output = home.call("schedule", "run-now", "nightly", "--wait")
        return output, home.summary()["outcome"]

    return run


def machines_of(home: Home) -> tuple:
    """Return type, least and most machines and the CPU's target of the only deployed model."""
    [endpoint] = json.loads(home.call("endpoints", "list", "--json"))
    [deployed] = endpoint["serves"]
    found = deployed["dedicatedResources"]
    [target] = found["autoscalingMetricSpecs"]
    numbers = (found["minReplicaCount"], found["maxReplicaCount"], target["target"])
    return found["machineSpec"]["machineType"], *numbers


def test_a_schedule_does_not_promote_what_a_person_left_or_holds(home, night):
    machines = {"serving_machine": "n1-standard-8", "serving.min_replicas": 2}
    machines |= {"serving.max_replicas": 5, "serving.cpu_target": 70}
    assert night(**machines)[1] == "promoted"
    assert machines_of(home) == ("n1-standard-8", 2, 5, 70)
    assert night(**machines | {"serving.max_replicas": 6})[1] == "same-model"
    assert machines_of(home) == ("n1-standard-8", 2, 6, 70)
    assert night(**{"train.seed": 5}, **machines)[1] == "promoted"
    home.call("models", "rollback", "mnist", "--reason", "Fares are 5 % too low!")
    assert machines_of(home) == ("n1-standard-8", 2, 5, 70), "of the version that it leaves"

    output, outcome = night(**{"train.seed": 5})

    assert outcome == "rejected"
    assert (
        "the model is that of version 2 (to promote it: trainyard models approve mnist@2)" in output
    )
    assert "Fares are 5 % too low!" in output
    assert (default_of(home), versions_of(home)) == ("1", ["1", "2"])
    home.call("models", "hold", "mnist", "--reason", "end of the year")
    output, outcome = night(**{"train.seed": 7})
    assert outcome == "held"
    assert re.search(r"held: by \S+@\S+ at .*: end of the year", output)
    assert home.summary()["metrics"]
    assert (default_of(home), versions_of(home)) == ("1", ["1", "2"])
    assert night(**{"train.seed": 5, "release.promote": False})[1] == "not-promoted"
    home.call("models", "release", "mnist")
    assert night(**{"train.seed": 7})[1] == "promoted"
    assert default_of(home) == "3"
    history = home.call("models", "history", "mnist")
    causes = ["promoted", "released", "held: end", "rejected: Fares", "rollback", "promoted"]
    assert re.search(".*".join(causes), history, re.DOTALL), history


def test_a_version_waits_until_a_person_at_another_machine_approves_it(home, night):
    waiting = {"release.approval": "required", "release.canary": [20, 60]}
    waiting["release.canary_seconds"] = 0.5
    assert night()[1] == "promoted"

    output, outcome = night(**{"train.seed": 5, **waiting})

    assert outcome == "waiting"
    assert "a person must approve or reject it" in output
    assert home.summary()["model_version"] == "mnist@2"
    assert default_of(home) == "1"
    assert night(**{"train.seed": 5, **waiting})[1] == "waiting"
    assert versions_of(home) == ["1", "2"], "the same model waits already"
    elsewhere = home.elsewhere("models", "approve", "mnist@2", "--reason", "checked")
    assert "the default is mnist@2, served by taxi" in elsewhere
    assert default_of(home) == "2"
    assert night(**{"train.seed": 7, **waiting})[1] == "waiting"
    home.call("models", "reject", "mnist@3", "--reason", "not before Monday")
    assert night(**{"train.seed": 7, **waiting})[1] == "rejected"
    assert "approved: checked" in home.call("models", "history", "mnist")


def test_a_hold_stops_a_run_that_is_about_to_promote_and_its_resumed_run(home):
    code, output = home.run(*ANY_ACCURACY)
    assert code == 0, output
    slow = home.start_run(*ANY_ACCURACY, "--set", "train.seed=5", "--set", "gate.min_gain=-2")
    runner = home.runner_at("deploy-model", of=slow)
    runner.suspend()
    home.call("models", "hold", "mnist", "--reason", "audit")
    runner.resume()

    code, output = ended(slow)

    assert code == FAILED_EXIT
    assert re.search(r"not promoted, held: by \S+ at .*: audit", output)
    assert (default_of(home), versions_of(home)) == ("1", ["1"])
    run = home.summary()["run"]
    output = home.call("runs", "resume", run, "--wait")
    assert "held: by" in output
    assert (default_of(home), versions_of(home)) == ("1", ["1"])
    home.call("models", "release", "mnist")
    home.call("runs", "resume", run, "--wait")
    assert default_of(home) == versions_of(home)[-1] != "1"


def test_a_run_that_must_not_promote_ends_after_its_evaluation(home):
    code, output = home.run(*ANY_ACCURACY, "--no-promote")

    assert code == 0, output
    assert "not-promoted: the run ends after its evaluation" in output
    assert home.summary()["outcome"] == "not-promoted"
    assert set(home.states().values()) <= {"SUCCEEDED", "NOT_RUN"}
    assert home.call("models", "list").count("\n") == 1
    home.assert_nothing_is_left()
