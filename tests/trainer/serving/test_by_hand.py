"""The steps of an old tutorial: a job, its model as a version, an endpoint, predictions."""

import json
import re

import numpy as np
import pytest

from pipelines.cli import main
from trainer.runtime.tensorflow_logs import import_tensorflow
from vertex_local.tests.support.service import running_service

pytestmark = pytest.mark.timeout(240)
FILE = "tests/components/plan_training/old_cluster_files/mnist-two-nodes.yaml"


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    """The state folder of a service with a warm process."""
    folder = tmp_path_factory.mktemp("state")
    with running_service(folder / "vertex", "--preload", "tensorflow"):
        yield folder


@pytest.fixture
def trainyard(state_dir, capsys):
    """Run a command, which must succeed, against a running service; return its output."""

    def run(*arguments: str, code: int = 0) -> str:
        words = list(arguments)
        cut = words.index("--") if "--" in words else len(words)
        words[cut:cut] = ["--state-dir", str(state_dir)]
        answered = main(words)
        said = capsys.readouterr()
        assert answered == code, said
        return said.out if code == 0 else said.err

    return run


def test_a_tutorials_steps_from_a_job_to_predictions(trainyard, examples_dir, tmp_path):
    submit = ["jobs", "submit", "mnist", "--examples-dir", str(examples_dir), "--cluster", FILE]
    digits = tmp_path / "digits.jsonl"
    digits.write_text(f"{json.dumps([[0] * 28] * 28)}\n{json.dumps({'image': [255] * 784})}\n")
    ask = ["endpoints", "predict", "mnist", "--json-instances", str(digits)]

    flags = ["--", "--steps=8", "--batch-size=16"]
    job = trainyard(*submit, "--name", "mnist-1", "--wait", *flags)
    assert "mnist@1 (default)" in trainyard("models", "upload", "mnist-1", "--name", "mnist")
    deployed = trainyard("endpoints", "deploy", "mnist@1")
    assert "the version holds no golden.json" in deployed
    heads, *rows = trainyard(*ask).splitlines()
    assert heads.split() == ["CLASS", "LABEL", "PROBABILITIES"]
    assert len(rows) == 2

    job_id = re.search(r"job (\d+)", job)[1]
    trainyard("models", "upload", job_id, "--name", "mnist", "--version-alias", "second")
    trainyard("endpoints", "deploy", "mnist@second")
    assert "the default is mnist@2" in trainyard("models", "set-default", "mnist@2")
    first, second = trainyard("models", "list").splitlines()[1:]
    assert (first.split()[1:3], "default" in second) == (["1", "previous"], True)

    digits.write_text('{"inputs": [0]}\n')
    refused = trainyard(*ask, code=1)
    assert f"{digits}, line 1: the field 'inputs' is" in refused
    trainyard("models", "rollback", "mnist")
    trainyard("endpoints", "delete", "mnist")
    trainyard("models", "delete", "mnist", "--all")
    assert trainyard("models", "list").splitlines()[1:] == []


def test_a_model_of_plain_keras_is_served(trainyard, tmp_path):
    import_tensorflow()
    import keras

    folder, rows = tmp_path / "exported", [[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.export(str(folder), verbose=False)
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))

    said = trainyard("models", "upload", str(folder), "--name", "plain")
    assert "takes 'keras_tensor" in said
    trainyard("endpoints", "deploy", "plain@1")
    ask = ["endpoints", "predict", "plain", "--json-instances", str(file), "--format", "json"]
    answers = json.loads(trainyard(*ask))
    expected = model(np.asarray(rows, np.float32)).numpy()
    np.testing.assert_allclose(answers, expected, atol=1e-6)
    trainyard("endpoints", "delete", "plain")
