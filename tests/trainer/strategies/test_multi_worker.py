"""mirrored and multi_worker_mirrored in real processes: the same training as on one device."""

import json
import re
import signal

import pytest

from tests.trainer.support.jobs import expect_end, read_curve
from trainer.errors import EXIT_RESTART

WORKERS = {"num_chiefs": 0, "num_ps": 0}
COLLECTIVES = ("--all-reduce", "collectives")


@pytest.fixture
def flags(examples_dir):
    return [
        *("--workload", "mnist", "--examples-dir", examples_dir, "--learning-rate", 0.0005),
        *("--batch-size", 33, "--steps-per-call", 5, "--log-every-steps", 5),
    ]


def test_the_loss_curve_does_not_depend_on_the_strategy(
    start, start_cluster, flags, tmp_path, expect_own_predictions
):
    def flags_of(name, *more):
        return [*flags, "--steps", 20, "--output-dir", tmp_path / name, *more]

    ring = start_cluster(*flags_of("ring"), **WORKERS, num_evaluators=1)
    replicas = {
        "single": [start("single", *flags_of("single"))],
        "mirrored": [start("mirrored", *flags_of("mirrored", "--cpu-devices", 3))],
        "ring": ring.values(),
    }
    for some in replicas.values():
        expect_end(some)
    expect_end(start_cluster(*flags_of("collectives", *COLLECTIVES), **WORKERS).values())
    curves = {name: read_curve(tmp_path / name, "loss") for name in [*replicas, "collectives"]}
    single = curves.pop("single")
    assert single[5] > 1
    assert set(single) == {5, 10, 15, 20}
    for name, curve in curves.items():
        assert curve == pytest.approx(single, abs=1e-4), name
    for name in ("mirrored", "ring"):
        expect_own_predictions(tmp_path / name)
    assert "worker/0 writes the model" in ring["worker/1"].log
    assert "worker/1 step 20/20 loss " in ring["worker/1"].log
    assert "step 20 eval: " in ring["evaluator/0"].log
    assert "the job has ended: training is done" in ring["evaluator/0"].log
    logs = tmp_path / "ring/logs"
    assert json.loads((logs / "evaluator.jsonl").read_text().splitlines()[-1])["step"] == 20
    assert list(logs.glob("eval/events*"))


@pytest.mark.parametrize(
    ("more", "count"), [((), 3), (COLLECTIVES, 2)], ids=["ring", "collectives"]
)
def test_a_lost_replica_is_named_by_all_others(start_cluster, flags, tmp_path, more, count):
    flags += ["--steps", 1_000_000, "--output-dir", tmp_path, *more]
    replicas = start_cluster(*flags, **WORKERS, num_workers=count)
    replicas["worker/0"].wait_for("/1000000 loss")
    replicas.pop("worker/0").kill()
    expect_end(replicas.values(), EXIT_RESTART)
    for replica in replicas.values():
        assert re.search(r"worker/0 \(127\.0\.0\.1:\d+\) has been unreachable for", replica.log)
        assert all(line.startswith("worker/") for line in replica.log.splitlines()), replica.log


def test_sigterm_to_one_replica_stops_all_at_one_step(start_cluster, flags, tmp_path):
    flags += ["--steps", 1_000_000, "--output-dir", tmp_path]
    replicas = start_cluster(*flags, num_ps=0, num_workers=1)
    replicas["chief/0"].wait_for("/1000000 loss")
    replicas["worker/0"].process.send_signal(signal.SIGTERM)
    expect_end(replicas.values(), EXIT_RESTART)
    assert all("stopped by SIGTERM" in replica.log for replica in replicas.values())
    assert "is saved, start again to resume" in replicas["chief/0"].log
    assert not (tmp_path / "model").exists()


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
