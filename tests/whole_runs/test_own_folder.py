"""Folders of users to served models: one whose modules have the names of ours and Python's, and
those of docs/your-own.md, as `trainyard new` writes it, docs/choosing.md and docs/retraining.md.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.processes.whole_runs import Home, ended
from tools.outputs import CODES, is_like, print_again
from tools.pages import CHOOSING, RETRAINING, YOUR_OWN, commands_of, files_of
from vertex_local.tests.support.waiting import wait_until

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
prepare: {files: [../customers.csv]}
train: {batch_size: 32}
model: {units: 8, layers: 2}
thresholds: {rmse: {at_most: 1000}}
gate: {baseline: none, folds: 0}
"""
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/from_python.py"
BIN = Path(sys.executable).parent
HIDING = ("json", "kfp", "statistics", "trainer", "vertex_local")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with packages and a workload whose modules hide ours and Python's."""
    project = tmp_path / "project"
    folder = project / "Churn 2"
    for name in ("trainer", "components", "pipelines"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"raise RuntimeError('{name} of the user')\n")
    (folder / "components").mkdir(parents=True)
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
    (project / "customers.csv").write_text("\n".join(lines) + "\n")
    return project


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Iterator[Home]:
    """A home whose service, and so replicas and servers, are started in the project."""
    home = Home(tmp_path / "home", tmp_path)
    root = home.state / "vertex"
    preload = ["--preload=kfp.local,kfp.dsl.executor_main", "--preload=tensorflow"]
    service = subprocess.Popen(
        [BIN / "vertex-local", "serve", "--root", str(root), *preload],
        cwd=project,
        env={**os.environ, "PYTHONPATH": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until((root / "server.json").exists, "the service")
        yield home
    finally:
        service.terminate()
        service.wait(30)


@pytest.fixture
def installed(project: Path, own: Home):
    """Run an installed command in the project, as users do; return its output."""
    variables = {"PYTHONPATH": str(project), "TRAINYARD_DIR": str(own.state)}

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            check=False,
            cwd=project,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_a_project_with_names_of_ours_goes_from_new_to_a_model_which_an_edit_does_not_change(
    project, own, installed
):
    installed("trainyard", "new", "written", "--table", "customers.csv", "--label", "spent")
    installed("python", "-m", "pytest", "-q", "written")
    output = installed("python", str(EXAMPLE), "Churn 2")
    assert "promoted churn-2@1" in output
    assert output.count("'value':") == 1
    [run] = json.loads(own.call("runs", "list", "--json"))
    assert (run["outcome"], run["workload"]) == ("promoted", "churn-2")
    settings = {"model.units": 8, "model.layers": 2, "thresholds.rmse.at_most": 1000}
    assert run["settings"].items() >= settings.items()
    assert run["project_digest"]
    assert {"mae", "rmse", "r2"} <= set(run["metrics"])
    assert run["reasons"][0].endswith("is at most 1000")

    (project / "Churn 2/workload.py").write_text("raise SystemExit('edited after its run')\n")
    installed("trainyard", "endpoints", "deploy", "churn-2@1")
    instances = own.folder / "instances.json"
    instances.write_text(json.dumps([{"age": 30, "charge": 90.0, "plan": None}]))
    command = ("endpoints", "predict", "churn-2", "--instances", str(instances))
    [prediction] = json.loads(own.call(*command))
    assert list(prediction) == ["value"]
    shown = own.call("runs", "show", run["run"])
    assert f"churn-2 {run['project_digest']}" in shown
    assert "/state/code/" not in shown
    own.call("prune", "--max-gb", "0")
    code = [path.name for path in (own.state / "code").iterdir()]
    assert f"churn-2-{run['project_digest']}" in code, "the model's server may need it"


@pytest.fixture
def print_commands(home):
    """Run the commands of a page, or of a section, and compare what it shows of them."""

    def run(words: Sequence[str]) -> str:
        if words[0] == "trainyard":
            code, output = ended(home.start(*words[1:]))
            assert code in CODES, output
            return output
        program = {"python": sys.executable}.get(words[0], words[0])
        subprocess.run([program, *words[1:]], cwd=home.folder, check=True)
        return ""

    def check(page: Path, *headings: str) -> None:
        for output, printed in print_again(page, run, home.folder, headings=headings):
            assert is_like(output.text, printed), f"make pictures\n{printed}"

    return check


@pytest.mark.parametrize(
    ("page", "heading", "outcomes"),
    [
        (YOUR_OWN, "Ten minutes from a CSV to a served model", ["promoted"]),
        pytest.param(
            CHOOSING, "Choosing a split", ["promoted", "gate-failed"], marks=pytest.mark.long
        ),
        pytest.param(
            RETRAINING, "", ["gate-failed", "promoted", "promoted"], marks=pytest.mark.long
        ),
    ],
    ids=["a CSV to a served model", "splits by hash and by time", "nights that can be undone"],
)
def test_the_commands_of_a_page_print_what_it_shows(home, print_commands, page, heading, outcomes):
    print_commands(page, *filter(None, [heading]))
    runs = json.loads(home.call("runs", "list", "--json"))
    assert [run["outcome"] for run in runs] == outcomes


@pytest.mark.long
def test_the_page_leads_from_pictures_with_a_table_to_predictions(home):
    (home.folder / "make_houses.py").write_text(files_of(YOUR_OWN)["make_houses.py"])
    commands = [list(command.words) for command in commands_of(YOUR_OWN)]
    first = commands.index(["python", "make_houses.py"])
    make, new, check, run, request, predict = commands[first : first + 6]
    subprocess.run([sys.executable, *make[1:]], cwd=home.folder, check=True)
    home.call(*new[1:])
    assert "all 240 rows: 240 examples, 0 quarantined" in home.call(*check[1:])
    home.call(*run[1:], "--set", "train.epochs=3", "--set", "gate.baseline=none")
    [value, _] = (one["value"] for one in json.loads(home.call(*request[1:])))
    home.call(*predict[1:])
    lines = (home.folder / "predicted/predictions-00000-of-00001.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert {one["key"] for one in found} == {f"h{number}" for number in range(240)}
    assert found[0]["prediction"]["value"] == pytest.approx(value, rel=1e-3)
