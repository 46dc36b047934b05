"""Folders of users to served models: one whose modules have the names of ours and Python's, and
the first one of docs/your-own.md, as `trainyard new` writes it.
"""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import YOUR_OWN, commands_of, files_of

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
def call(tmp_path: Path):
    """Run an installed command in a folder; return its output."""
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

    yield run
    run("vertex-local", "stop", "--root", str(tmp_path / "state/vertex"))


def test_a_folder_becomes_a_served_model_which_an_edit_does_not_change(folder, call, tmp_path):
    output = call("trainyard", "run", ".", "--keep-endpoint", "--set", "model.layers=2", cwd=folder)
    assert re.search(r"trainyard\S* endpoints predict churn-2 ", output)
    [run] = json.loads(call("trainyard", "runs", "list", "--json"))
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
    [prediction] = json.loads(call("trainyard", *command))
    assert list(prediction) == ["value"]
    shown = call("trainyard", "runs", "show", run["run"])
    assert f"churn-2 {run['project_digest']}" in shown
    assert "/state/code/" not in shown

    call("trainyard", "prune", "--keep", "0")
    assert len(list((tmp_path / "state/code").iterdir())) == 1, "the model's server may need it"


def test_the_page_leads_from_a_csv_to_a_served_model(call, tmp_path):
    (tmp_path / "make_data.py").write_text(files_of(YOUR_OWN)["make_data.py"])
    commands = [list(command.words) for command in commands_of(YOUR_OWN)[:5]]
    assert [words[:2] for words in commands] == [
        ["python", "make_data.py"],
        *(["trainyard", name] for name in ("new", "check", "run", "endpoints")),
    ]
    outputs = [call(*words) for words in commands]

    [run] = json.loads(call("trainyard", "runs", "list", "--json"))
    assert (run["outcome"], run["workload"]) == ("promoted", "churn")
    assert run["metrics"]["auc"] > 0.65
    predictions = json.loads(outputs[-1])
    assert {one["label"] for one in predictions} <= {"yes", "no"}
    assert len(predictions) == len(json.loads((tmp_path / "churn/instances.json").read_text()))
