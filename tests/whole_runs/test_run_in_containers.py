"""The whole pipeline on few images, with each step, replica and server in a container."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)

RUN_TIMEOUT_SECONDS = 360
REPOSITORY = Path(__file__).parents[2]
# Those of Google's operations are carried out by the service.
STEPS = 7


@pytest.fixture
def run(tmp_path, tiny_mnist, container_image):
    """Runs the pipeline; answers the exit code and what was said."""

    def do():
        (tmp_path / "data").mkdir()
        tiny_mnist(num_train=64, num_test=20).rename(tmp_path / "data" / "mnist")
        settings = ["trust_files=true", "train.epochs=2", "train.batch_size=8"]
        settings += ["thresholds.accuracy=0", "gate.baseline=none"]
        done = subprocess.run(
            [
                *[sys.executable, "-m", "pipelines.cli", "run", "mnist"],
                *["--containers", "--image", container_image],
                *["--cluster", "configs/clusters/single.yaml"],
                *["--data-dir", str(tmp_path / "data"), "--state-dir", str(tmp_path / "state")],
                *[word for setting in settings for word in ("--set", setting)],
            ],
            check=False,
            cwd=REPOSITORY,
            env={name: text for name, text in os.environ.items() if name != "VERTEX_EMULATOR_HOST"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_TIMEOUT_SECONDS,
        )
        return done.returncode, done.stdout

    return do


def started_since(moment, root):
    """The names of the containers of a service that have been started, the hash left out."""
    done = subprocess.run(
        [
            *["docker", "events", "--since", str(moment), "--until", str(int(time.time()) + 1)],
            *["--filter", f"label=vertex-local.root={root}", "--filter", "event=start"],
            *["--format", "{{.Actor.Attributes.name}}"],
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    return sorted(name.split("-", 3)[3] for name in done.stdout.splitlines())


def test_everything_runs_in_containers_and_none_is_left(run, tmp_path, left_over):
    began = int(time.time())

    code, output = run()

    assert code == 0, output
    summary = json.loads((tmp_path / "state/runs/latest/summary.json").read_text())
    states = {task["name"]: task["state"] for task in summary["tasks"]}
    assert states.pop("serve-known") == "NOT_RUN"
    assert set(states.values()) == {"SUCCEEDED"}
    assert summary["verdict"] == "passed"
    assert summary["model_version"].endswith("@1")
    root = tmp_path / "state" / "vertex"
    assert started_since(began, root) == sorted(["chief-0", "server", *STEPS * ["the-step"]])
    assert left_over(root) == []
    assert not (root / "server.json").exists()
