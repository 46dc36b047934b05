"""Two runs of one model at the same time: no worse model replaces a better one."""

import re

import pytest

from tests.support.processes.whole_runs import Home, ended

ANY_ACCURACY = ("--keep-endpoint", "--set", "thresholds.accuracy=0")
FAILED_EXIT = 1


@pytest.fixture
def home(tmp_path, tiny_mnist):
    home = Home(tmp_path / "home", tiny_mnist(num_train=64, num_test=20))
    with home.serving():
        yield home


@pytest.mark.parametrize("min_gain", [2, -2], ids=["worse", "better"])
def test_a_run_is_compared_with_the_version_that_another_run_promoted_meanwhile(home, min_gain):
    demand = ("--set", "train.seed=5", "--set", f"gate.min_gain={min_gain}")
    slow = home.start_run(*ANY_ACCURACY, *demand)  # uploads version 1, and then waits
    runner = home.runner_at("record-version", of=slow)
    runner.suspend()
    code, output = home.run(*ANY_ACCURACY)
    assert code == 0, output
    runner.resume()
    code, output = ended(slow)

    is_worse = min_gain > 0
    assert (code == FAILED_EXIT) is is_worse, output
    assert ("version 2 became the default during this run" in output) is is_worse
    assert default_of(home) == ("2" if is_worse else "1")
    if not is_worse:
        assert "than version 2's" in home.call("models", "history", "mnist")


def test_two_first_runs_at_once_make_one_model_and_one_endpoint(home):
    runs = [home.start_run(*ANY_ACCURACY, "--set", f"train.seed={seed}") for seed in (1, 2)]

    outcomes = [ended(run) for run in runs]

    assert 0 in dict(outcomes)
    for code, output in outcomes:
        assert code == 0 or re.search("became the default|was moved meanwhile", output), output
    assert default_of(home) in {"1", "2"}


def default_of(home: Home) -> str:
    """Return the default version of the only model, which has all traffic of the only endpoint."""
    [model] = resources(home, "models")
    [endpoint] = resources(home, "endpoints")
    [deployed] = endpoint["deployedModels"]
    assert endpoint["trafficSplit"] == {deployed["id"]: 100}
    assert deployed["modelVersionId"] == model["versionId"]
    assert "default" in model["versionAliases"]
    return str(model["versionId"])


def resources(home: Home, kind: str) -> list[dict]:
    listed: dict = home.ask(f"projects/local/locations/us-central1/{kind}").json()
    return listed.get(kind, [])
