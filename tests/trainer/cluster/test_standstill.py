"""Stalled replicas: the others notice, write their stacks, and end."""

import json
import os
import signal
import socket

import pytest

from tests.trainer.support.jobs import expect_end
from trainer.errors import EXIT_RESTART

STACK = "(most recent call first)"


@pytest.fixture
def flags(examples_dir, tmp_path):
    return [
        *("--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", tmp_path),
        *("--batch-size", 32, "--steps-per-call", 4, "--steps", 1_000_000),
        *("--stall-seconds", 10, "--log-every-steps", 20, "--checkpoint-every-steps", 100_000),
    ]


def stop(replica):
    """Stop a process as a debugger or a hung host does: its port still accepts connections."""
    os.kill(replica.process.pid, signal.SIGSTOP)


@pytest.mark.parametrize("num_ps", [1, 0], ids=["parameter_server", "multi_worker_mirrored"])
def test_a_stalled_worker_ends_the_job_with_stacks(start_cluster, flags, num_ps):
    replicas = start_cluster(*flags, num_workers=1, num_ps=num_ps)
    chief, worker = replicas["chief/0"], replicas["worker/0"]
    chief.wait_for(" eval: ")
    stop(worker)

    assert chief.wait() == EXIT_RESTART
    assert "for 10 s (--stall-seconds 10)" in chief.log
    assert STACK in chief.log
    os.kill(worker.process.pid, signal.SIGCONT)
    for name, replica in replicas.items():
        assert replica.wait() == EXIT_RESTART, replica.log
        if num_ps:
            assert STACK in replica.log, name
            assert name == "chief/0" or "the chief reports: no step" in replica.log


def test_a_replica_whose_port_is_taken_ends_at_once(start, flags):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], "ps": [address]}
        config = {"cluster": cluster, "task": {"type": "ps", "index": 0}}
        replica = start("ps/0", *flags, TF_CONFIG=json.dumps(config))
        expect_end([replica], 1)
    assert f"ps/0 cannot serve at {address}: port" in replica.log
    assert "another process listens" in replica.log
