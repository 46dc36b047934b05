"""Shipped cluster files train here, one process per machine, and an old tutorial's steps work."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.config.cluster_files import read_cluster
from vertex_local.tests.support.service import running_service

OLD = Path("tests/components/plan_training/old_cluster_files")
FILES = [*sorted(Path("configs/clusters").glob("*.yaml")), *sorted(OLD.glob("*.yaml"))]


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    """The state folder of a service with a warm process."""
    folder = tmp_path_factory.mktemp("state")
    with running_service(folder / "vertex", "--preload", "tensorflow"):
        yield folder


@pytest.fixture
def trainyard(state_dir, capsys):
    """Run a command against the service; return its output, or its error if it must fail."""

    def run(*words, code=0):
        assert main([*words, "--state-dir", str(state_dir)]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return run


@pytest.fixture
def submit(state_dir, examples_dir, capsys):
    """Train a job to its end; return its id."""

    def run(file, name):
        command = ["jobs", "submit", "mnist", "--cluster", str(file), "--name", name, "--wait"]
        command += ["--examples-dir", str(examples_dir), "--state-dir", str(state_dir)]
        assert main([*command, "--", "--steps=8", "--batch-size=16"]) == 0
        return re.search(r"job (\d+)", capsys.readouterr().out)[1]

    return run


@pytest.mark.long
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_shipped_cluster_trains(file, submit, trainyard, state_dir):
    shown = trainyard("jobs", "show", submit(file, file.stem))
    roles = Counter(role for role, _ in set(re.findall(r"^([a-z]+)/(\d+) ", shown, re.M)))
    cluster = read_cluster(file)
    assert roles["chief"] + roles["worker"] == cluster.chief + cluster.workers
    assert roles["ps"] == cluster.parameter_servers
    assert (state_dir / f"runs/{file.stem}/model/saved_model.pb").is_file()


def test_a_tutorials_steps_from_a_job_to_predictions(submit, trainyard, tmp_path):
    digits = tmp_path / "digits.jsonl"
    digits.write_text(f"{json.dumps([[0] * 28] * 28)}\n{json.dumps({'image': [255] * 784})}\n")
    ask = ["endpoints", "predict", "mnist", "--json-instances", str(digits)]

    job_id = submit(OLD / "mnist-two-nodes.yaml", "mnist-1")
    assert "mnist@1 (default)" in trainyard("models", "upload", "mnist-1", "--name", "mnist")
    deployed = trainyard("endpoints", "deploy", "mnist@1")
    assert "the version holds no golden.json" in deployed
    heads, *rows = trainyard(*ask).splitlines()
    assert heads.split() == ["CLASS", "LABEL", "PROBABILITIES"]
    assert len(rows) == 2

    trainyard("models", "upload", job_id, "--name", "mnist", "--version-alias", "second")
    trainyard("endpoints", "deploy", "mnist@second")
    assert "the default is mnist@2" in trainyard("models", "set-default", "mnist@2")
    first, second = trainyard("models", "list").splitlines()[1:]
    assert (first.split()[1:3], "default" in second) == (["1", "previous"], True)

    digits.write_text('{"inputs": [0]}\n')
    assert f"{digits}, line 1: unknown field 'inputs'" in trainyard(*ask, code=1)
    trainyard("models", "rollback", "mnist")
    trainyard("endpoints", "delete", "mnist")
    trainyard("models", "delete", "mnist", "--all")
    assert trainyard("models", "list").splitlines()[1:] == []
