"""A small table from the file to a second version, judged by folds."""

import json
import random
import tempfile
from pathlib import Path

import pytest

from tests.support.data.csv_tables import write_table
from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import forks_with

pytestmark = pytest.mark.timeout(600)

TIMEOUT_SECONDS = 280
CENTERS = {"setosa": (5.0, 1.5), "versicolor": (5.9, 4.3), "virginica": (6.6, 5.5)}


@pytest.fixture
def trainyard(tmp_path):
    state, temp = tmp_path / "state", tmp_path / "tmp"
    temp.mkdir()

    def run(*arguments: str, module: str = "pipelines.cli") -> str:
        process = forks_with(*EVERYTHING).start(
            ["python", "-m", module, *arguments],
            log_path=Path(tempfile.mkstemp(dir=tmp_path)[1]),
            cwd=str(tmp_path),
            TRAINYARD_DIR=str(state),
            TMPDIR=str(temp),
            VERTEX_EMULATOR_HOST=None,
        )
        output, _ = process.communicate(TIMEOUT_SECONDS)
        assert process.returncode == 0, output
        return output

    yield run
    run("stop", "--root", str(state / "vertex"), module="vertex_local.cli")
    assert not list(temp.glob("folds-*"))


def test_few_rows_are_judged_by_folds_and_a_version_by_those_of_the_one_before(trainyard, tmp_path):
    dice = random.Random(4)
    rows = [
        {"sepal": dice.gauss(sepal, 0.4), "petal": dice.gauss(petal, 0.3), "species": species}
        for species, (sepal, petal) in CENTERS.items()
        for _ in range(50)
    ]
    write_table(tmp_path / "iris.csv", rows)
    trainyard("new", "iris", "--table", "iris.csv", "--label", "species")
    assert "5 folds of all 150 rows judge the model" in trainyard("check", "iris")
    vary = ("train.steps=20", "train.learning_rate=1e-6,0.05", "gate.folds=2")
    tune = [word for setting in vary for word in ("--set", setting)]
    told = trainyard("tune", "iris", *tune, "--search", "grid", "--parallel", "2", "--json")
    assert "by 2 folds of train and eval" in told
    tuned = json.loads(told[told.index("\n{") :])
    assert (tuned["folds"], len(tuned["trials"])) == (2, 2)
    assert [step for step, _ in tuned["best"]["curve"]] == [1, 2]
    assert tuned["best"]["settings"]["train.learning_rate"] == "0.05"

    short = [f"train.{name}" for name in ("steps=150", "learning_rate=0.02")]
    words = [word for setting in (*short, "thresholds.accuracy=0.8") for word in ("--set", setting)]

    output = trainyard("run", "iris", *words)

    [run] = json.loads(trainyard("runs", "list", "--json"))
    assert (run["outcome"], run["model_version"]) == ("promoted", "iris@1")
    assert (run["folds"]["count"], run["folds"]["rows"]) == (5, 150)
    accuracy = run["folds"]["metrics"]["accuracy"]
    assert accuracy == pytest.approx(round(accuracy * 150) / 150)
    assert f"accuracy {accuracy:.4f} by 5 folds (150 rows) is at least 0.8" in run["reasons"]
    assert any("by 5 folds (150 rows)" in text and "linear" in text for text in run["reasons"])
    assert run["metrics"]["num_examples"] < 50
    assert "folds accuracy" in output

    trainyard("run", "iris", *words, "--set", "train.seed=1", "--set", "gate.min_gain=-1")

    second = json.loads(trainyard("runs", "list", "--json"))[0]
    assert second["model_version"] == "iris@2"
    for rival in ("version 1", "best constant"):
        [text] = [text for text in second["reasons"] if rival in text]
        assert "by 5 folds (150 rows)" in text
    # Of each fold's rest, whose most frequent class is not the fold's; of all rows it is 0.3333.
    assert float(text.partition("constant prediction, ")[2].partition(", surely")[0]) < 1 / 3
