"""A cluster of containers on their own network, one of which is killed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(400)

JOB_TIMEOUT_SECONDS = 300
WAIT_SECONDS = 200
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def job(tmp_path, examples_dir, container_image):
    """A followed job of a chief, two workers and a ps, each in a container."""
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [
                *[sys.executable, "-m", "pipelines.cli", "jobs", "submit", "mnist", "--follow"],
                *["--containers", "--image", container_image, "--name", "contained"],
                *["--cluster", "configs/clusters/mnist_parameter_server.yaml"],
                *["--examples-dir", str(examples_dir), "--state-dir", str(tmp_path)],
                *["--", "--steps=1500", "--batch-size=16"],
            ],
            cwd=REPOSITORY,
            env={k: value for k, value in os.environ.items() if k != "VERTEX_EMULATOR_HOST"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    yield process
    process.kill()
    process.wait(30)


def replicas(state_dir):
    (path,) = (state_dir / "vertex" / "jobs").glob("*/state.json")
    return json.loads(path.read_text())["replicas"]


def wait_for_line(path, text, *, of):
    deadline = time.monotonic() + WAIT_SECONDS
    while text not in path.read_text():
        assert of.poll() is None, path.read_text()
        assert time.monotonic() < deadline, f"no {text!r} in {path}: {path.read_text()}"
        time.sleep(0.1)


def test_a_killed_container_of_a_cluster_is_restarted_and_rejoins(job, tmp_path, left_over):
    output = tmp_path / "output"
    wait_for_line(output, "step 50/1500", of=job)
    running = replicas(tmp_path)
    names = {one["container"] for one in running.values()}
    assert set(running) == {"chief/0", "worker/0", "worker/1", "ps/0"}
    (network,) = set(left_over(tmp_path / "vertex")) - names
    assert network.startswith("network vertex-local-")
    subprocess.run(["docker", "kill", running["worker/1"]["container"]], check=True, timeout=60)

    assert job.wait(JOB_TIMEOUT_SECONDS) == 0, output.read_text()

    ended = replicas(tmp_path)
    assert {name: one["restarts"] for name, one in ended.items() if one["restarts"]} == {
        "worker/1": 1
    }
    assert "step 1500/1500" in output.read_text()
    assert (tmp_path / "runs/contained/model/saved_model.pb").is_file()
    assert left_over(tmp_path / "vertex") == []
