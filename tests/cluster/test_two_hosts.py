"""Two hosts with addresses of their own, connected by a cable: what `cluster commands` prints."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.plan_training.cluster_file import load_cluster
from components.plan_training.hosts import commands
from trainer.errors import EXIT_RESTART

pytestmark = pytest.mark.timeout(180)

ADDRESSES = ["10.213.7.1:2222", "10.213.7.2:2222"]


class TwoHosts:
    """Two network namespaces and the pair of interfaces that connects them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.names = [f"trainyard-{os.getpid()}-{side}" for side in "ab"]
        self.started: list[subprocess.Popen] = []

    def connect(self) -> None:
        """Skips the test where the system refuses it."""
        if not shutil.which("ip"):
            pytest.skip("there is no `ip` command (iproute2) to make hosts with")
        left, right = self.names
        cable = ["cable", "netns", left, "type", "veth", "peer", "name", "cable", "netns", right]
        for words in (["netns", "add", left], ["netns", "add", right], ["link", "add", *cable]):
            try:
                ip(*words)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"`ip {' '.join(words[:2])}` is refused: {error.stderr.strip()}")
        for name, address in zip(self.names, ADDRESSES, strict=True):
            host = address.rpartition(":")[0]
            ip("-n", name, "address", "add", f"{host}/30", "dev", "cable")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "cable", "up")

    def set_cable(self, state: str) -> None:
        """`down` cuts the hosts off from each other without a word to either."""
        ip("-n", self.names[1], "link", "set", "cable", state)

    def start(self, command: str, *, host: int) -> tuple[subprocess.Popen, Path]:
        """Runs a shell command on a host; returns its process and log."""
        log_path = self.folder / f"{len(self.started)}.log"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with log_path.open("w") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.names[host], "sh", "-c", command],
                env={**os.environ, "PATH": path, "TF_CONFIG": ""},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)
        return process, log_path

    def close(self) -> None:
        """Ends what runs and takes the hosts away."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=10)


@pytest.fixture
def hosts(tmp_path):
    two = TwoHosts(tmp_path)
    try:
        two.connect()
        yield two
    finally:
        two.close()


@pytest.fixture
def start_both(hosts, examples_dir, tmp_path, pytestconfig):
    """Starts the shipped cluster of two hosts, as `cluster commands` says."""
    cluster = load_cluster(pytestconfig.rootpath / "configs" / "clusters" / "two_hosts.yaml").spec

    def start(*flags: object):
        given = ["--workload", "mnist", "--examples-dir", examples_dir, "--batch-size", 32]
        given += ["--output-dir", tmp_path / "out", "--steps-per-call", 5, "--log-every-steps", 5]
        words = list(map(str, [*given, *flags]))
        printed = commands(cluster, ADDRESSES, flags=words).values()
        return [hosts.start(command, host=index) for index, command in enumerate(printed)]

    return start


def wait_for(text: str, log_path: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while text not in log_path.read_text():
        assert process.poll() is None, log_path.read_text()
        assert time.monotonic() < deadline, log_path.read_text()
        time.sleep(0.1)


def test_two_hosts_train_and_one_that_is_cut_off_is_named_by_the_other(hosts, start_both):
    both = start_both("--steps", 1_000_000, "--checkpoint-every-steps", 10)
    wait_for(" eval: ", both[0][1], both[0][0])
    hosts.set_cable("down")
    cut = time.monotonic()
    for (process, log_path), other in zip(both, (1, 0), strict=True):
        assert process.wait(60) == EXIT_RESTART, log_path.read_text()
        gone = f"worker/{other} ({ADDRESSES[other]}) has been unreachable for"
        assert gone in log_path.read_text()
        assert "Traceback" not in log_path.read_text()
    assert time.monotonic() - cut < 60


def test_a_host_that_cannot_be_reached_at_the_start_is_named(hosts, start_both):
    hosts.set_cable("down")
    for process, log_path in start_both("--steps", 10, "--start-timeout-seconds", 3):
        assert process.wait(40) != 0, log_path.read_text()
        log = log_path.read_text()
        assert "Traceback" not in log
        assert "waited 3 s for worker/" in log, log
