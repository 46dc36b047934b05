"""The whole pipeline on few images, with each step, replica and server in a container."""

import subprocess
import time

import pytest

from tests.support.processes.whole_runs import Home

pytestmark = pytest.mark.timeout(400)

RUN_TIMEOUT_SECONDS = 360
# Those of Google's operations are carried out by the service.
STEPS = 7


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


def test_everything_runs_in_containers_and_none_is_left(
    tmp_path, tiny_mnist, container_image, left_over
):
    data = tiny_mnist(num_train=64, num_test=20)
    home = Home(tmp_path / "home", data)
    link = home.folder / "data" / "mnist"
    link.unlink()
    data.rename(link)  # a container sees what is in the folder, not where a link leads
    began = int(time.time())

    image = ("--containers", "--image", container_image)
    process = home.start_run(*image, "--set", "thresholds.accuracy=0")
    output, _ = process.communicate(RUN_TIMEOUT_SECONDS)

    assert process.returncode == 0, output
    states = home.states()
    assert states.pop("serve-known") == "NOT_RUN"
    assert set(states.values()) == {"SUCCEEDED"}
    assert home.summary()["model_version"].endswith("@1")
    root = home.state / "vertex"
    assert started_since(began, root) == sorted(["chief-0", "server", *STEPS * ["the-step"]])
    assert left_over(root) == []
    home.assert_nothing_is_left()
