"""What a person decides about a model lasts: a schedule's runs obey, in progress and resumed."""

import json
import re

import pytest
import yaml

from tests.support.processes.whole_runs import Home, ended

MACHINES = {
    "serving.machine": "n1-standard-8",
    "serving.min_replicas": 2,
    "serving.max_replicas": 5,
    "serving.cpu_target": 70,
}


def versions_of(home: Home) -> tuple[list[str], str]:
    """Return all versions and the default one, as `models list` shows them."""
    listed = home.call("models", "list")
    [default] = re.findall(r"^taxi +(\d+) +.*default", listed, re.MULTILINE)
    return re.findall(r"^taxi +(\d+)", listed, re.MULTILINE), default


@pytest.fixture
def night(home, tmp_path, taxi_rows, write_csv):
    """Start a schedule's next run."""
    trips = write_csv(taxi_rows(200))
    (tmp_path / "schedules").mkdir()

    def start(**parameters):
        schedule = {
            "workload": "taxi",
            "cron": "0 3 * * *",
            "paused": True,
            "parameters": {
                "prepare.files": [str(trips)],
                "train.epochs": 1,
                "thresholds.auc": 0,
                "thresholds.accuracy": 0,
                "gate.baseline": "none",
                "gate.folds": 0,
                "gate.min_gain": -2,
                "keep_endpoint": True,
                **MACHINES,
                **parameters,
            },
        }
        (tmp_path / "schedules/nightly.yaml").write_text(yaml.safe_dump(schedule))
        home.call("schedule", "apply", str(tmp_path / "schedules"))
        return home.start("schedule", "run-now", "nightly", "--wait")

    return start


def machines_of(home: Home) -> tuple:
    """Return type, least and most machines and the CPU's target of the only deployed model."""
    [endpoint] = json.loads(home.call("endpoints", "list", "--json"))
    [deployed] = endpoint["serves"]
    found = deployed["dedicatedResources"]
    [target] = found["autoscalingMetricSpecs"]
    numbers = (found["minReplicaCount"], found["maxReplicaCount"], target["target"])
    return found["machineSpec"]["machineType"], *numbers


@pytest.mark.timeout(400)
def test_a_schedules_runs_wait_for_a_person_and_obey_a_hold_in_progress_and_resumed(home, night):
    code, output = ended(night())
    assert (code, home.summary()["outcome"]) == (0, "promoted"), output
    assert machines_of(home) == tuple(MACHINES.values())
    code, output = ended(night(**{"serving.max_replicas": 6}))
    assert (code, home.summary()["outcome"]) == (0, "same-model"), output
    assert machines_of(home) == ("n1-standard-8", 2, 6, 70)
    waiting = {"release.approval": "required", "release.canary": [20, 60]}
    code, output = ended(night(**{"train.seed": 5, "release.canary_seconds": 0.1, **waiting}))
    assert (code, home.summary()["outcome"]) == (0, "waiting"), output
    assert "a person must approve or reject it" in output
    assert home.summary()["model_version"] == "taxi@2"
    assert versions_of(home) == (["1", "2"], "1")
    elsewhere = home.elsewhere("models", "approve", "taxi@2", "--reason", "checked")
    assert "the default is taxi@2, served by taxi" in elsewhere
    assert machines_of(home) == tuple(MACHINES.values())

    slow = night(**{"train.seed": 7})
    runner = home.runner_at("deploy-model", of=slow)
    runner.suspend()
    home.call("models", "hold", "taxi", "--reason", "end of the year")
    runner.resume()
    code, output = ended(slow)

    assert code == 1, output
    assert re.search(r"not promoted, held: by \S+@\S+ at .*: end of the year", output)
    assert versions_of(home) == (["1", "2"], "2")
    resume = ("runs", "resume", home.summary()["run"], "--wait")
    output = home.call(*resume)
    assert re.search(r"held: by \S+@\S+ at .*: end of the year", output)
    assert home.summary()["outcome"] == "held"
    assert home.summary()["metrics"]
    assert versions_of(home) == (["1", "2"], "2")
    home.call("models", "release", "taxi")
    home.call(*resume)
    versions, default = versions_of(home)
    assert default == versions[-1] not in {"1", "2"}
    history = home.call("models", "history", "taxi")
    causes = ["promoted", "released", "held: end", "approved: checked", "promoted"]
    assert re.search(".*".join(causes), history, re.DOTALL), history
