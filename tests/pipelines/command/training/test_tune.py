"""`trainyard tune` with a service of its own and real trials, then `run --from` its best."""

import json

import pytest

from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import forks_with

pytestmark = pytest.mark.timeout(180)


def test_trials_are_trained_and_the_best_becomes_the_configuration_of_a_run(examples_dir, tmp_path):
    where = ["--examples-dir", str(examples_dir), "--state-dir", str(tmp_path)]
    settings = ["--set", "train.steps=10", "--set", "train.learning_rate=1e-9,0.05"]
    options = [*where, *settings, "--search", "grid", "--name", "first", "--json"]

    def tune() -> dict:
        process = forks_with(*EVERYTHING).start(
            ["python", "-m", "pipelines.cli", "tune", "mnist", *options],
            log_path=tmp_path / "log",
            TRAINYARD_PRELOAD="tensorflow",
            VERTEX_EMULATOR_HOST=None,
        )
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return json.loads(output[output.rindex("\n{") :])

    facts = tune()
    assert facts["state"] == "SUCCEEDED"
    assert [trial["state"] for trial in facts["trials"]] == ["SUCCEEDED"] * 2
    assert facts["best"]["settings"] == {"train.learning_rate": "0.05"}
    assert facts["best"]["curve"][-1] == [10, facts["best"]["value"]]
    assert (tmp_path / "runs/first/2/model/saved_model.pb").is_file()
    assert tune() == facts  # the same name: nothing is trained again
