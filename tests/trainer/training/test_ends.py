"""Early ends of jobs with several replicas: the loss explodes, or no longer improves."""

import numpy as np
import pytest

from tests.trainer.support.jobs import expect_end, last_checkpoint, read_lines, steps_in


@pytest.fixture
def flags(examples_dir, tmp_path):
    return [
        *("--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", tmp_path),
        *("--batch-size", 32, "--steps-per-call", 8, "--epochs", 60, "--patience", 1),
    ]


def test_a_loss_that_explodes_ends_all_replicas_with_advice(start_cluster, flags, tmp_path):
    flags += ["--learning-rate", 1e18, "--checkpoint-every-steps", 1]
    replicas = start_cluster(*flags, num_workers=1, num_ps=0)
    expect_end(replicas.values(), 1)
    last = replicas["chief/0"].log.splitlines()[-1]
    assert "step " in last
    assert "the loss " in last
    assert "--learning-rate (now 1e+18)" in last
    for _ in steps_in(tmp_path)[-1:]:
        assert np.isfinite(last_checkpoint(tmp_path).load()["weights"]).all()


@pytest.mark.parametrize("num_ps", [0, 1], ids=["multi_worker_mirrored", "parameter_server"])
def test_training_that_no_longer_improves_ends_on_all_replicas_with_the_best_model(
    start_cluster, flags, tmp_path, expect_own_predictions, num_ps
):
    flags += ["--learning-rate", 0.02]
    replicas = start_cluster(*flags, num_workers=1, num_ps=num_ps)
    expect_end(replicas.values())
    assert "loss no longer improves (--patience 1)" in replicas["chief/0"].log
    expect_own_predictions(tmp_path, is_best=True)
    if not num_ps:
        evaluated = [line["step"] for line in read_lines(tmp_path, "eval")]
        assert evaluated == list(range(16, evaluated[-1] + 1, 16))
        assert evaluated[-1] < 60 * 16
        checkpoints = steps_in(tmp_path)
        again = start_cluster(*flags, "--checkpoint-every-steps", 1, num_workers=1, num_ps=0)
        expect_end(again.values())
        assert steps_in(tmp_path) == checkpoints, "a job that had ended early trains again"
