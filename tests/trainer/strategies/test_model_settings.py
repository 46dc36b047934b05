"""The wide-and-deep settings in clusters of real processes: trained, stopped, resumed, exported."""

import json

import numpy as np
import pytest

from tests.support.data.evaluation import evaluate
from trainer.training.checkpoint import list_checkpoints

pytestmark = pytest.mark.timeout(300)
SIZES = {
    "parameter_server": {"num_workers": 1, "num_ps": 2},
    "multi_worker_mirrored": {"num_chiefs": 0, "num_workers": 2, "num_ps": 0},
}
MESSAGES = ("--message-dtype", "bfloat16")


def flags(trips_dir, out, *, steps):
    return [
        *("--workload", "taxi", "--examples-dir", trips_dir, "--output-dir", out),
        *("--batch-size", 32, "--steps-per-call", 10, "--steps", steps, "--schedule-steps", 120),
        *("--optimizer", "rmsprop", "--momentum", 0.5, "--linear-optimizer", "ftrl"),
        *("--model.hidden_units=16,8", "--model.embedding_size=4", "--model.batch_norm=true"),
        "--model.crosses=payment_type:company,payment_type:fare:trip_start_hour",
    ]


@pytest.mark.parametrize(
    ("strategy", "stops"),
    [("parameter_server", [60, 120]), ("multi_worker_mirrored", [120])],
    ids=SIZES,
)
def test_a_cluster_trains_and_resumes_with_every_setting(
    start_cluster, trips_dir, tmp_path, strategy, stops
):
    out = tmp_path / "out"
    for steps in stops:
        messages = MESSAGES if strategy == "parameter_server" else ()
        replicas = start_cluster(*flags(trips_dir, out, steps=steps), *messages, **SIZES[strategy])
        codes = {name: replica.wait() for name, replica in replicas.items()}
        logs = "\n".join(replica.log for replica in replicas.values())
        assert set(codes.values()) == {0}, logs
    assert ("resuming from step 60" in logs) is (len(stops) > 1)
    assert "learning rate of step" not in logs
    saved = list_checkpoints(str(out / "checkpoints"))[-1]
    assert saved.step == 120
    snapshot = saved.load()
    assert snapshot["state"].shape == (2 * (16 + 8),)
    assert np.abs(snapshot["state"].numpy()[:16]).max() > 0
    size = snapshot["weights"].shape[0]
    linear = snapshot["linear_accumulator"].shape[0]
    assert snapshot["mean_square"].shape == (size - linear,)
    assert snapshot["linear_accumulator"].numpy().max() > 0.11, "FTRL has accumulated gradients"
    lines = map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines())
    measured = [line for line in lines if line["split"] == "eval"][-1]
    metrics = evaluate(str(out / "model"), str(trips_dir), split="eval").metrics
    assert metrics["loss"] == pytest.approx(measured["loss"], rel=1e-3)
    assert metrics["auc"] > 0.95
