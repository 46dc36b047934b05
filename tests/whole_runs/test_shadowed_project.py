"""A project with packages named trainer, components and pipelines, as many for Vertex AI have."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(500)

TIMEOUT_SECONDS = 400
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/from_python.py"
RUN_FILE = """\
prepare: {files: [../customers.csv]}
train: {epochs: 2, batch_size: 32}
gate: {baseline: none}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("trainer", "components", "pipelines"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('{name} of the user')\n")
    dice = random.Random(3)
    lines = ["age,charge,plan,spent"]
    for _ in range(400):
        plan, charge = dice.choice(["basic", "plus"]), dice.uniform(5, 100)
        spent = 3 * charge + 50 * (plan == "plus") + dice.gauss(0, 5)
        lines.append(f"{dice.randint(18, 90)},{charge:.2f},{plan},{spent:.2f}")
    (folder / "customers.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_project_with_packages_named_as_ours_goes_from_new_to_predictions(project, tmp_path):
    """The service, and so replicas and servers, are started in the project, too."""
    variables = {**os.environ, "PYTHONPATH": str(project), "TRAINYARD_DIR": str(tmp_path / "state")}
    bin_folder = Path(sys.executable).parent

    def run(*command: str) -> str:
        done = subprocess.run(
            command,
            cwd=project,
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    trainyard, service = str(bin_folder / "trainyard"), str(bin_folder / "vertex-local")
    run(trainyard, "new", "churn", "--table", "customers.csv", "--label", "spent")
    run(sys.executable, "-m", "pytest", "-q", "churn")
    (project / "churn/run.yaml").write_text(RUN_FILE)

    root = tmp_path / "state/vertex"
    preload = ["--preload=kfp.local,kfp.dsl.executor_main", "--preload=tensorflow"]
    started = subprocess.Popen(
        [service, "serve", "--root", str(root), *preload],
        cwd=project,
        env={**variables, "PYTHONPATH": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not (root / "server.json").exists():
            time.sleep(0.1)
        output = run(sys.executable, str(EXAMPLE), "churn")
        assert "promoted churn@1" in output
        assert output.count("'value':") == 1
        instances = ["--instances", "churn/instances.json"]
        run(trainyard, "endpoints", "deploy", "churn@1")
        assert '"value"' in run(trainyard, "endpoints", "predict", "churn", *instances)
    finally:
        started.terminate()
        started.wait(30)
