"""Two first runs of one model at the same time: no worse model replaces a better one."""

from tests.support.processes.whole_runs import ended

ANY_ACCURACY = ("--keep-endpoint", "--set", "thresholds.accuracy=0")


def test_two_first_runs_at_once_make_one_model_whose_default_is_not_the_worse_one(home):
    demand = ("--set", "train.seed=5", "--set", "gate.min_gain=2")
    slow = home.start_run(*ANY_ACCURACY, *demand)  # uploads version 1, and then waits
    runner = home.runner_at("record-version", of=slow)
    runner.suspend()
    code, output = home.run(*ANY_ACCURACY)
    assert code == 0, output
    runner.resume()

    code, output = ended(slow)

    assert code == 1, output
    assert "version 2 became the default since the evaluation" in output
    [model], [endpoint] = home.resources("models"), home.resources("endpoints")
    [deployed] = endpoint["deployedModels"]
    assert endpoint["trafficSplit"] == {deployed["id"]: 100}
    assert deployed["modelVersionId"] == model["versionId"] == "2"
    assert "default" in model["versionAliases"]
