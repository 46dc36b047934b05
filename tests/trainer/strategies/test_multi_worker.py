"""mirrored and multi_worker_mirrored in real processes: the same training as on one device."""

import json
import re
import signal
import socket

import pytest

from trainer.errors import EXIT_RESTART

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def flags(examples_dir):
    return [
        *("--workload", "mnist", "--examples-dir", examples_dir, "--learning-rate", 0.0005),
        *("--batch-size", 33, "--steps-per-call", 5, "--log-every-steps", 5),
    ]


@pytest.fixture(params=["ring", "collectives"])
def group_flags(request, flags):
    """The flags of a job for each way to connect its replicas."""
    return [*flags, "--all-reduce", request.param]


def losses(out):
    lines = map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if line["split"] == "train"}


def test_the_loss_curve_does_not_depend_on_the_strategy(
    start, start_cluster, group_flags, tmp_path, expect_own_predictions
):
    outs = {name: tmp_path / name for name in ("single", "mirrored", "workers")}
    flags = [*group_flags, "--steps", 30]
    alone = [
        start("single", *flags, "--output-dir", outs["single"]),
        start("mirrored", *flags, "--output-dir", outs["mirrored"], "--cpu-devices", 3),
    ]
    workers = start_cluster(
        *flags, "--output-dir", outs["workers"], num_chiefs=0, num_ps=0, num_evaluators=1
    )
    for replica in [*alone, *workers.values()]:
        assert replica.wait() == 0, replica.log

    curves = {name: losses(out) for name, out in outs.items()}
    assert curves["single"][5] > 1
    assert set(curves["single"]) == set(range(5, 31, 5))
    for name in ("mirrored", "workers"):
        assert curves[name] == pytest.approx(curves["single"], abs=1e-4), name
        expect_own_predictions(outs[name])
    assert "worker/0 writes the model" in workers["worker/1"].log
    assert "worker/1 step 30/30 loss " in workers["worker/1"].log
    evaluator = workers["evaluator/0"]
    assert "step 30 eval: " in evaluator.log
    assert "the job has ended: training is done" in evaluator.log
    lines = (outs["workers"] / "logs/evaluator.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 30
    assert list(outs["workers"].glob("logs/eval/events*"))


def test_a_lost_replica_is_named_by_all_others(start_cluster, group_flags, tmp_path):
    flags = [*group_flags, "--steps", 1_000_000, "--output-dir", tmp_path]
    replicas = start_cluster(*flags, num_chiefs=0, num_ps=0, num_workers=3)
    replicas["worker/0"].wait_for("/1000000 loss")
    replicas.pop("worker/0").kill()
    for replica in replicas.values():
        assert replica.wait(30) == EXIT_RESTART, replica.log
        assert re.search(r"worker/0 \(127\.0\.0\.1:\d+\) has been unreachable for", replica.log)
        assert "Traceback" not in replica.log
        assert all(line.startswith("worker/") for line in replica.log.splitlines()), replica.log


def test_sigterm_to_one_replica_stops_all_at_one_step(start_cluster, flags, tmp_path):
    flags += ["--steps", 1_000_000, "--output-dir", tmp_path]
    replicas = start_cluster(*flags, num_ps=0, num_workers=1)
    replicas["chief/0"].wait_for("/1000000 loss")
    replicas["worker/0"].process.send_signal(signal.SIGTERM)
    for replica in replicas.values():
        assert replica.wait(20) == EXIT_RESTART, replica.log
        assert "stopped by SIGTERM" in replica.log
    assert "is saved, start again to resume" in replicas["chief/0"].log


def test_a_replica_that_never_starts_is_named(start_cluster, flags, tmp_path):
    flags += ["--steps", 10, "--output-dir", tmp_path, "--start-timeout-seconds", 2]
    replicas = start_cluster(*flags, num_ps=0, num_workers=2, later={"worker/1"})
    replicas.pop("worker/1")
    # When the first gives up, the others lose it.
    codes = {replica.wait(30) for replica in replicas.values()}
    logs = [replica.log for replica in replicas.values()]
    assert 1 in codes, logs
    assert codes <= {1, EXIT_RESTART}, logs
    # The one that gave up first is also missing for the others.
    assert any(re.search(r"waited 2 s for .*worker/1 \(127\.0\.0\.1:", log) for log in logs), logs
    assert all("worker/1 (127.0.0.1:" in log and "Traceback" not in log for log in logs), logs


def test_a_port_that_is_taken_is_named(start, flags, tmp_path, port):
    with socket.create_server(("127.0.0.1", port)):
        config = {"cluster": {"worker": [f"127.0.0.1:{port}", "127.0.0.1:1"]}}
        config["task"] = {"type": "worker", "index": 0}
        replica = start("taken", *flags, "--output-dir", tmp_path, TF_CONFIG=json.dumps(config))
        assert replica.wait(30) == 1
    assert f"cannot serve at 127.0.0.1:{port}" in replica.log
    assert "Traceback" not in replica.log
