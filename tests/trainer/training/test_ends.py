"""Early ends of jobs with several replicas: the loss explodes, or no longer improves."""

import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.training.checkpoint import list_checkpoints

import_tensorflow()

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def flags(examples_dir, tmp_path):
    return [
        *("--workload", "mnist", "--examples-dir", examples_dir, "--output-dir", tmp_path),
        *("--batch-size", 32, "--steps-per-call", 8, "--epochs", 60),
    ]


@pytest.fixture(params=["multi_worker_mirrored", "parameter_server"])
def replicas_of(request, start_cluster):
    """Starts a small cluster of the strategy; returns its replicas, the chief first."""
    is_mirrored = request.param == "multi_worker_mirrored"
    shape = {"num_ps": 0} if is_mirrored else {"num_ps": 1}

    def start_all(*flags):
        replicas = start_cluster(*flags, num_workers=1, **shape)
        return [replicas.pop("chief/0"), *replicas.values()]

    return start_all


def steps_in(out):
    return [saved.step for saved in list_checkpoints(str(out / "checkpoints"))]


def test_a_loss_that_explodes_ends_all_replicas_with_advice(replicas_of, flags):
    chief, *others = replicas_of(*flags, "--learning-rate", 1e18)
    for replica in (chief, *others):
        assert replica.wait() == 1, replica.log
        assert "Traceback" not in replica.log
    assert "the loss " in chief.log
    assert "--learning-rate (now 1e+18)" in chief.log


def test_training_that_no_longer_improves_ends_on_all_replicas_with_the_best_model(
    replicas_of, flags, tmp_path, expect_own_predictions
):
    flags += ["--learning-rate", 0.02, "--patience", 1]
    chief, *others = replicas_of(*flags)
    for replica in (chief, *others):
        assert replica.wait() == 0, replica.log
    assert "loss no longer improves (--patience 1)" in chief.log
    expect_own_predictions(tmp_path, is_best=True)

    checkpoints = steps_in(tmp_path)
    replicas = replicas_of(*flags, "--checkpoint-every-steps", 1)
    for replica in replicas:
        assert replica.wait() == 0, replica.log
    assert steps_in(tmp_path) == checkpoints, "a job that had ended early trains again"
