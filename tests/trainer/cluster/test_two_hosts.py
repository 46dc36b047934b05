"""The commands of `cluster commands`, run on two hosts with addresses of their own."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from components.plan_training.cluster_file import load_cluster
from components.plan_training.shape import ClusterSpec
from components.plan_training.spellings.tf_config import commands
from tests.support.processes.everything import EVERYTHING
from trainer.errors import EXIT_RESTART
from vertex_local.tests.support.forks import Fork, forks_with

pytestmark = pytest.mark.linux("network namespaces")

LEFT, RIGHT = "10.213.7.1", "10.213.7.2"
TWO = [f"{LEFT}:2222", f"{RIGHT}:2222"]


class TwoHosts:
    """Two network namespaces and the pair of interfaces that connects them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.names = [f"trainyard-{os.getpid()}-{side}" for side in "ab"]
        self.started: list[Fork] = []

    def connect(self) -> None:
        """Create the hosts; skip the test if the system refuses it."""
        if not shutil.which("ip"):
            pytest.skip("there is no `ip` command (iproute2) to make hosts with")
        left, right = self.names
        cable = ["cable", "netns", left, "type", "veth", "peer", "name", "cable", "netns", right]
        for words in (["netns", "add", left], ["netns", "add", right], ["link", "add", *cable]):
            try:
                ip(*words)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"`ip {' '.join(words[:2])}` is refused: {error.stderr.strip()}")
        for name, host in zip(self.names, (LEFT, RIGHT), strict=True):
            ip("-n", name, "address", "add", f"{host}/30", "dev", "cable")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "cable", "up")

    def set_cable(self, state: str) -> None:
        """Set the cable `up` or `down`; neither host is notified."""
        ip("-n", self.names[1], "link", "set", "cable", state)

    def start(self, command: str, *, host: int) -> tuple[Fork, Path]:
        """Run a command on a host, as a fork; return its process and log."""
        log_path = self.folder / f"{len(self.started)}.log"
        variable, *words = shlex.split(command)
        key, _, value = variable.partition("=")
        forks = forks_with(*EVERYTHING)
        self.started.append(
            forks.start(words, log_path=log_path, network=self.names[host], **{key: value})
        )
        return self.started[-1], log_path

    def close(self) -> None:
        """Kill all processes and delete the hosts."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
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
def start(hosts, examples_dir, tmp_path):
    """Starts a cluster by the commands of `cluster commands`, on the hosts with its addresses."""

    def start_cluster(cluster, addresses, *flags: object):
        out = tmp_path / cluster.strategy
        given = ["--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", out]
        given += ["--batch-size", 32, "--steps-per-call", 5, "--log-every-steps", 5, *flags]
        printed = commands(cluster, addresses, flags=list(map(str, given)))
        return {
            name: hosts.start(command, host=int(address.startswith(RIGHT)))
            for (name, command), address in zip(printed.items(), addresses, strict=True)
        }

    return start_cluster


@pytest.fixture
def two_workers(pytestconfig):
    """The shipped cluster file of two hosts."""
    return load_cluster(pytestconfig.rootpath / "configs" / "clusters" / "two_hosts.yaml").spec


def wait_for(pattern: str, replica: tuple[Fork, Path], *, after: int = 0) -> int:
    """Wait for the pattern in the log after its first characters; return the log's length."""
    process, log_path = replica
    deadline = time.monotonic() + 120
    while not re.search(pattern, log_path.read_text()[after:]):
        assert process.poll() is None, log_path.read_text()
        assert time.monotonic() < deadline, f"{pattern} is not in {log_path.read_text()}"
        time.sleep(0.1)
    return len(log_path.read_text())


def test_a_host_that_is_cut_off_is_named_and_no_replica_hangs(hosts, start, two_workers):
    servers = ClusterSpec(strategy="parameter_server", workers=2, parameter_servers=1)
    left_ports = [f"{LEFT}:{port}" for port in (2231, 2232, 2233)]
    flags = ["--steps", 1_000_000, "--checkpoint-every-steps", 50]
    both = start(two_workers, TWO, *flags)
    others = start(servers, [*left_ports[:2], f"{RIGHT}:2231", left_ports[2]], *flags)
    wait_for(" eval: ", both["worker/0"])
    wait_for("/1000000 loss", others["chief/0"])
    hosts.set_cable("down")

    # Synchronous: both end.
    for name, lost in (("worker/0", "worker/1"), ("worker/1", "worker/0")):
        process, log_path = both[name]
        assert process.wait(90) == EXIT_RESTART, log_path.read_text()
        log = log_path.read_text()
        assert f"{lost} ({TWO[int(lost[-1])]}) has been unreachable for" in log
        assert "Traceback" not in log
    # Asynchronous: the replicas on the chief's host continue.
    so_far = wait_for("worker/1 is lost; 1 worker continues", others["chief/0"])
    for _ in range(3):
        so_far = wait_for("/1000000 loss", others["chief/0"], after=so_far)


def test_a_host_that_is_unreachable_at_the_start_is_named(hosts, start, two_workers):
    hosts.set_cable("down")
    flags = ["--steps", 10, "--start-timeout-seconds", 3]
    started = start(two_workers, TWO, *flags)
    for process, log_path in started.values():
        assert process.wait(90) != 0, log_path.read_text()
        log = log_path.read_text()
        assert "Traceback" not in log
        assert "waited 3 s for worker/" in log, log
