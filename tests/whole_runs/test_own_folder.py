"""Folders of users to served models: one whose modules have the names of ours and Python's, and
those of docs/your-own.md, as `trainyard new` writes it, docs/choosing.md and docs/retraining.md.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Container, Sequence
from pathlib import Path

import pytest

from tests.docs.pages import CHOOSING, RETRAINING, YOUR_OWN, commands_of, files_of
from tests.support.processes.everything import EVERYTHING
from tools.outputs import CODES, is_like, print_again
from vertex_local.tests.support.forks import forks_with

pytestmark = pytest.mark.timeout(400)

TIMEOUT_SECONDS = 300
WORKLOAD = '''\
"""How much customers spend."""

from pathlib import Path

from trainer.workloads import Category, Number, Regression, Table, combine

from . import components

PLANS = tuple(Path(__file__).with_name("plans.txt").read_text().split())


def model(inputs, *, units=16, layers=1):
    import keras

    x = combine(inputs)
    for _ in range(layers):
        x = components.dense(units)(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x))


workload = Table(
    features=[Number("age", low=0, high=120), Number("charge"), Category("plan", values=PLANS)],
    label=Regression("spent", unit="CHF"),
    key="customer_id",
    model=model,
)
'''
COMPONENTS = """\
def dense(units):
    import keras

    return keras.layers.Dense(units, activation="relu")
"""
RUN = """\
prepare: {files: [data/customers.csv]}
train: {epochs: 2, batch_size: 32}
model: {units: 8}
thresholds: {rmse: {at_most: 1000}}
gate: {baseline: none}
"""
HIDING = ("json", "kfp", "statistics", "trainer", "vertex_local")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "Churn 2"
    (folder / "data").mkdir(parents=True)
    (folder / "components").mkdir()
    (folder / "components/__init__.py").write_text(COMPONENTS)
    (folder / "workload.py").write_text(WORKLOAD)
    (folder / "plans.txt").write_text("basic plus\n")
    (folder / "run.yaml").write_text(RUN)
    for name in HIDING:
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name} of the user')\n")
    dice = random.Random(3)
    lines = ["customer_id,age,charge,plan,spent"]
    for number in range(400):
        plan, charge = dice.choice(["basic", "plus"]), dice.uniform(5, 100)
        spent = 3 * charge + 50 * (plan == "plus") + dice.gauss(0, 5)
        lines.append(f"{number},{dice.randint(18, 90)},{charge:.2f},{plan},{spent:.2f}")
    (folder / "data/customers.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def installed(tmp_path: Path):
    """Run an installed command in a folder, as users do; return its output."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"TRAINYARD_DIR": str(tmp_path / "state")}

    def run(name: str, *arguments: str, cwd: Path = tmp_path) -> str:
        done = subprocess.run(
            [str(Path(sys.executable).parent / name), *arguments],
            check=False,
            cwd=cwd,
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def trainyard(tmp_path: Path):
    """Run a `trainyard` command in `tmp_path` by a fork; return its output."""
    state = tmp_path / "state"

    def run(*arguments: str, module: str = "pipelines.cli", codes: Container[int] = (0,)) -> str:
        process = forks_with(*EVERYTHING).start(
            ["python", "-m", module, *arguments],
            log_path=Path(tempfile.mkstemp(dir=tmp_path)[1]),
            cwd=str(tmp_path),
            TRAINYARD_DIR=str(state),
            VERTEX_EMULATOR_HOST=None,
        )
        output, _ = process.communicate(TIMEOUT_SECONDS)
        assert process.returncode in codes, output
        return output

    yield run
    run("stop", "--root", str(state / "vertex"), module="vertex_local.cli")


@pytest.fixture
def check_page(trainyard, tmp_path):
    """Run the commands of a page, or of some sections, and compare what it shows of them.

    Their outputs are returned, each with its words.
    """

    def check(page: Path, *headings: str) -> list[tuple[tuple[str, ...], str]]:
        outputs = []

        def run(words: Sequence[str]) -> str:
            if words[0] == "trainyard":
                text = trainyard(*words[1:], codes=CODES)
            else:
                program = {"python": sys.executable}.get(words[0], words[0])
                subprocess.run([program, *words[1:]], cwd=tmp_path, check=True)
                text = ""
            outputs.append((tuple(words), text))
            return text

        for output, printed in print_again(page, run, tmp_path, headings=headings):
            assert is_like(output.text, printed), f"make pictures\n{printed}"
        return outputs

    return check


def test_a_folder_becomes_a_served_model_which_an_edit_does_not_change(
    folder, installed, trainyard, tmp_path
):
    output = installed(
        "trainyard", "run", ".", "--keep-endpoint", "--set", "model.layers=2", cwd=folder
    )
    assert re.search(r"trainyard\S* endpoints predict churn-2 ", output)
    [run] = json.loads(trainyard("runs", "list", "--json"))
    assert (run["outcome"], run["workload"]) == ("promoted", "churn-2")
    assert run["settings"]["model.units"] == 8
    assert run["settings"]["model.layers"] == 2
    assert run["project_digest"]
    assert run["settings"]["thresholds.rmse.at_most"] == 1000
    assert {"mae", "rmse", "r2"} <= set(run["metrics"])
    assert run["reasons"][0].endswith("is at most 1000")
    assert "(at most 1000)" in output

    (folder / "workload.py").write_text("raise SystemExit('edited while it is served')\n")
    instances = tmp_path / "instances.json"
    instances.write_text(json.dumps([{"age": 30, "charge": 90.0, "plan": None}]))
    command = ["endpoints", "predict", "churn-2", "--instances", str(instances)]
    [prediction] = json.loads(trainyard(*command))
    assert list(prediction) == ["value"]
    shown = trainyard("runs", "show", run["run"])
    assert f"churn-2 {run['project_digest']}" in shown
    assert "/state/code/" not in shown

    trainyard("prune", "--keep", "0")
    assert len(list((tmp_path / "state/code").iterdir())) == 1, "the model's server may need it"


def test_the_page_leads_from_a_csv_to_a_served_model(check_page, trainyard, tmp_path):
    outputs = check_page(YOUR_OWN, "Ten minutes from a CSV to a served model")
    [answer] = [text for words, text in outputs if "predict" in words]

    [run] = json.loads(trainyard("runs", "list", "--json"))
    assert (run["outcome"], run["workload"]) == ("promoted", "churn")
    assert run["metrics"]["auc"] > 0.65
    predictions = json.loads(answer)
    assert {one["label"] for one in predictions} <= {"yes", "no"}
    assert len(predictions) == len(json.loads((tmp_path / "churn/instances.json").read_text()))


def test_the_page_leads_from_pictures_with_a_table_to_predictions(trainyard, tmp_path):
    (tmp_path / "make_houses.py").write_text(files_of(YOUR_OWN)["make_houses.py"])
    commands = [list(command.words) for command in commands_of(YOUR_OWN)]
    first = commands.index(["python", "make_houses.py"])
    make, new, check, run, request, predict = commands[first : first + 6]
    subprocess.run([sys.executable, *make[1:]], cwd=tmp_path, check=True)
    trainyard(*new[1:])
    assert "all 240 rows of 1 file read, 0 bad" in trainyard(*check[1:])
    trainyard(*run[1:], "--set", "train.epochs=3", "--set", "gate.baseline=none")
    [value, _] = (one["value"] for one in json.loads(trainyard(*request[1:])))
    trainyard(*predict[1:])
    lines = (tmp_path / "predicted/predictions-00000-of-00001.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert {one["key"] for one in found} == {f"h{number}" for number in range(240)}
    assert found[0]["prediction"]["value"] == pytest.approx(value, rel=1e-3)


def test_a_random_split_promises_what_a_split_by_time_does_not_keep(check_page, trainyard):
    check_page(CHOOSING, "Choosing a split")
    by_hash, by_time = json.loads(trainyard("runs", "list", "--json"))
    assert (by_hash["outcome"], by_time["outcome"]) == ("promoted", "gate-failed")
    assert by_time["metrics"]["rmse"] > 2 * by_hash["metrics"]["rmse"]


def test_three_nights_have_a_winner_and_a_loser_and_can_be_undone(check_page, trainyard):
    check_page(RETRAINING)
    runs = json.loads(trainyard("runs", "list", "--json"))
    assert [run["outcome"] for run in runs] == ["gate-failed", "promoted", "promoted"]
    assert any("version 2" in reason for reason in runs[0]["reasons"])
