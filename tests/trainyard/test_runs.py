"""Calls from Python that start no run; test_own_folder.py in tests/whole_runs does."""

import json

import pytest

import trainyard

pytestmark = pytest.mark.timeout(120)


def test_settings_and_options_become_those_of_the_command(capsys, tmp_path):
    run = trainyard.submit(
        "mnist",
        set={"train.epochs": 3, "keep_endpoint": True, "labels.team": "vision"},
        cluster="configs/clusters/single.yaml",
        dry_run=True,
        json=True,
        state_dir=tmp_path,
    )
    request = json.loads(capsys.readouterr().out)
    values = request["runtimeConfig"]["parameterValues"]
    assert json.loads(values["train"])["epochs"] == 3
    assert values["keep_endpoint"] is True
    assert json.loads(values["cluster"])["strategy"] == "single"
    assert request["labels"]["team"] == "vision"
    assert run.name.startswith("mnist-2")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"set": {"train.epoch": 3}}, "did you mean 'train.epochs'"),
        ({"set": {"train.epochs": "many"}}, "train.epochs is 'many'"),
        ({"keep_endpoints": True}, r"run\(\) has no option 'keep_endpoints'"),
        ({"on": "vertex"}, "needs a project"),
        ({"cluster": "none.yaml"}, "cannot read the cluster file none.yaml"),
    ],
)
def test_a_wrong_setting_or_option_is_a_value_error(given, problem, tmp_path, monkeypatch):
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    with pytest.raises(ValueError, match=problem):
        trainyard.run("mnist", **{"state_dir": tmp_path, **given})


def test_a_check_returns_its_findings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "churn").mkdir()
    (tmp_path / "churn/workload.py").write_text("workload = Tabel()\n")
    (tmp_path / "churn/run.yaml").write_text("train: {epocs: 3}\n")
    problems = [one for finding in trainyard.check("churn") for one in finding.problems]
    assert problems[0].startswith("churn/run.yaml:1: unknown key 'train.epocs'; did you mean")
    assert any("NameError" in problem for problem in problems)
