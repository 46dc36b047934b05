"""Late workers: training begins without them, and they join once they are reachable."""

import signal
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
    )
    chief = replicas["chief/0"]
    replicas[late].kill()
    chief.wait_for(f"training begins without {late} (127.0.0.1:")
    chief.wait_for("/1000000 loss")
    late_replica = replicas[late].start_again()
    chief.wait_for(f"{late} has joined")
    replicas.pop(late)
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
