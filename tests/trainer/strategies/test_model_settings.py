"""The wide-and-deep settings in clusters of real processes: trained, stopped, resumed, exported."""

import numpy as np
import pytest

from tests.support.data.evaluation import evaluate
from tests.trainer.support.jobs import expect_end, last_checkpoint
from trainer.serving.export import load_predictor

pytestmark = pytest.mark.timeout(300)


def flags(trips_dir, out, *, steps):
    return [
        *("--workload", "taxi", "--examples-dir", trips_dir, "--output-dir", out),
        *("--batch-size", 32, "--steps-per-call", 10, "--steps", steps, "--schedule-steps", 60),
        *("--optimizer", "rmsprop", "--momentum", 0.5, "--linear-optimizer", "ftrl"),
        *("--model.hidden_units=16,8", "--model.embedding_size=4", "--model.batch_norm=true"),
        "--model.crosses=payment_type:company,payment_type:fare:trip_start_hour",
    ]


@pytest.mark.parametrize(
    ("stops", "more", "sizes"),
    [
        ([20, 60], ("--message-dtype", "bfloat16"), {"num_workers": 1, "num_ps": 2}),
        ([60], (), {"num_chiefs": 0, "num_ps": 0}),
    ],
    ids=["parameter_server", "multi_worker_mirrored"],
)
def test_a_cluster_trains_and_resumes_with_every_setting(  # noqa: PLR0917
    start_cluster, trips_dir, tmp_path, stops, more, sizes
):
    out = tmp_path / "out"
    for steps in stops:
        replicas = start_cluster(*flags(trips_dir, out, steps=steps), *more, **sizes).values()
        expect_end(replicas)
    logs = "\n".join(replica.log for replica in replicas)
    assert ("resuming from step 20" in logs) is (len(stops) > 1)
    assert "learning rate of step" not in logs
    saved = last_checkpoint(out)
    assert saved.step == 60
    snapshot = saved.load()
    assert snapshot["state"].shape == (2 * (16 + 8),)
    assert np.abs(snapshot["state"].numpy()[:16]).max() > 0
    size = snapshot["weights"].shape[0]
    linear = snapshot["linear_accumulator"].shape[0]
    assert snapshot["mean_square"].shape == (size - linear,)
    assert snapshot["linear_accumulator"].numpy().max() > 0.11, "FTRL has accumulated gradients"
    metrics = evaluate(str(out / "model"), str(trips_dir), split="eval").metrics
    decision = load_predictor(str(out / "model")).decision
    assert metrics["loss"] == pytest.approx(decision["loss_after"], rel=1e-3)
    assert metrics["auc"] > 0.9
