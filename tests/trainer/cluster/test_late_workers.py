"""Late workers: training begins without them, and they join once they are reachable."""

import contextlib
import json
import signal
import socket
import time

import pytest

from trainer.errors import EXIT_RESTART
from trainer.runtime.progress import parse_progress
from trainer.training.checkpoint import list_checkpoints

pytestmark = pytest.mark.timeout(120)


def last_step(replica):
    lines = [parse_progress(line) for line in replica.log.splitlines()]
    return max((line.step for line in lines if line), default=0)


def test_a_late_worker_joins_and_can_continue_alone(start_cluster, examples_dir, tmp_path):
    late, other = "worker/0", "worker/1"
    replicas = start_cluster(
        *("--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", tmp_path),
        *("--batch-size", 32, "--steps-per-call", 10, "--steps", 1_000_000),
        *("--learning-rate", 0.001, "--late-worker-seconds", 1),
        later={late},
    )
    chief = replicas["chief/0"]
    chief.wait_for(f"training begins without {late} (127.0.0.1:")
    chief.wait_for("/1000000 loss")
    late_replica = replicas.pop(late)()
    chief.wait_for(f"{late} has joined")
    replicas.pop(other).kill()
    chief.wait_for(f"{other} is lost; 1 worker continues")
    step, deadline = last_step(chief), time.monotonic() + 30
    while last_step(chief) < step + 100:
        assert time.monotonic() < deadline, f"{late} does not continue alone:\n{chief.log}"
        time.sleep(0.1)
    chief.process.send_signal(signal.SIGTERM)
    for replica in (*replicas.values(), late_replica):
        assert replica.wait(20) == EXIT_RESTART, replica.log
    saved = list_checkpoints(str(tmp_path / "checkpoints"))[-1]
    *rest, (next_step, _) = saved.extra["unfinished"]
    assert saved.step == next_step - sum(count for _, count in rest)
    assert "Traceback" not in chief.log


def test_a_worker_that_is_lost_while_the_chief_connects_is_named(
    start_cluster, examples_dir, tmp_path
):
    flags = ["--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", tmp_path]
    replicas = start_cluster(*flags, later={"worker/0", "chief/0"})
    config = json.loads(replicas["worker/0"].keywords["TF_CONFIG"])
    host, port = config["cluster"]["worker"][0].split(":")
    with socket.create_server((host, int(port)), backlog=128) as server:  # of no replica
        server.settimeout(60)
        chief = replicas["chief/0"]()
        while not is_of_grpc(server.accept()[0]):
            pass
    assert chief.wait(60) == EXIT_RESTART, chief.log
    assert f"worker/0 ({host}:{port}) has been unreachable for" in chief.log


def is_of_grpc(connection):
    """Return whether a connection is TensorFlow's, not a probe of its port; close it."""
    with connection, contextlib.suppress(ConnectionError):
        return connection.recv(3) == b"PRI"
    return False
