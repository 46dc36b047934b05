"""Training that is killed at any moment and resumed ends like uninterrupted training."""

import random
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support.compiled import write_workload
from tests.trainer.support.jobs import expect_end, last_checkpoint, steps_in
from trainer.errors import DivergedError, TrainerError
from trainer.training.checkpoint import Checkpoints, Criterion

STEPS = 72
# Blocks of 12 steps; a step is 30 digits of 792 bytes.
STREAM = ("--cache", "stream", "--cache-gb", 3 * 12.5 * 30 * 792 / 1e9)


@pytest.fixture
def flags(examples_dir):
    return [
        *("--workload", "mnist", "--examples-dir", examples_dir, "--learning-rate", 0.001),
        *("--batch-size", 30, "--steps-per-call", 7, "--checkpoint-every-steps", 11),
        *("--steps", STEPS),
    ]


def last_weights(out, *, step=STEPS):
    saved = last_checkpoint(out)
    assert saved.step == step
    return {name: value.numpy() for name, value in saved.load().items()}


def kill_at_random_step(start_all, out, *, seed):
    """Kill one of the replicas soon after a checkpoint, then start all of them again."""
    chooser = random.Random(seed)
    replicas = start_all()
    wanted, found = chooser.randint(2, 4), set()
    deadline = time.monotonic() + 60
    while len(found) < wanted and all(one.process.poll() is None for one in replicas):
        found |= set(out.glob("checkpoints/step-*"))
        assert time.monotonic() < deadline, replicas[0].log
        time.sleep(0.005)
    time.sleep(chooser.random() * 0.1)
    chooser.choice(replicas).kill()
    for replica in replicas:
        replica.wait(30)
    replicas = start_all()
    expect_end(replicas)
    assert "resuming from step " in replicas[0].log


def test_a_killed_replica_ends_with_the_same_bits(start, flags, tmp_path):
    flags += ["--cpu-devices", 2, *STREAM]
    whole = start("whole", *flags, "--output-dir", tmp_path / "whole")
    out = tmp_path / "killed"
    kill_at_random_step(lambda: [start("killed", *flags, "--output-dir", out)], out, seed=2)
    expect_end([whole])
    expect_same_bits(last_weights(tmp_path / "whole"), last_weights(out))


def test_killed_multi_worker_training_ends_with_the_same_bits(start_cluster, flags, tmp_path):
    # The rows of an embedding are brought up to date when they are read, and before a checkpoint.
    adam = "keras.optimizers.AdamW(0.001, weight_decay=0.1)"
    more = (*STREAM, "--workload", write_workload(tmp_path, net="embedded", optimizer=adam))
    rate = flags.index("--learning-rate")
    del flags[rate : rate + 2]
    steps = flags[-1] = 77

    def start_all(out):
        sizes = {"num_chiefs": 0, "num_ps": 0, "num_workers": 2}
        return list(start_cluster(*flags, *more, "--output-dir", out, **sizes).values())

    expect_end(start_all(tmp_path / "whole"))
    out = tmp_path / "killed"
    kill_at_random_step(lambda: start_all(out), out, seed=5)
    expect_same_bits(last_weights(tmp_path / "whole", step=steps), last_weights(out, step=steps))


def expect_same_bits(one, other):
    assert set(one) == set(other) >= {"weights", "momentum", "velocity", "global_step"}
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name


@pytest.fixture
def checkpoints(tmp_path):
    criterion = Criterion(metric="accuracy", is_lower_better=False)
    return Checkpoints(f"{tmp_path}/checkpoints", keep=2, criterion=criterion)


def snapshot(step, value=1.0):
    return {
        "global_step": tf.constant(step, tf.int64),
        "weights": tf.fill([10], value),
        "state": tf.zeros([0]),
    }


def test_the_last_checkpoints_and_the_best_are_kept(checkpoints, tmp_path):
    for step, accuracy in [(1, 0.5), (2, 0.9), (3, 0.7), (4, float("nan")), (5, 0.8)]:
        checkpoints.save(snapshot(step), metrics={"accuracy": accuracy})
    checkpoints.save(snapshot(6))
    checkpoints.wait()
    assert steps_in(tmp_path) == [2, 5, 6]
    assert checkpoints.latest().step == 6


@pytest.mark.parametrize("damage", ["no info", "short file", "no file", "half info", "bit"])
def test_an_incomplete_checkpoint_is_ignored_and_deleted(checkpoints, tmp_path, damage):
    checkpoints.save(snapshot(1, 1.0), extra={"unfinished": [[1, -1]]})
    checkpoints.save(snapshot(2, 2.0))
    checkpoints.wait()
    folder = tmp_path / "checkpoints/step-0000000002"
    data = folder / "state.data-00000-of-00001"
    if damage == "no info":
        (folder / "checkpoint.json").unlink()
    elif damage == "short file":
        data.write_bytes(data.read_bytes()[:-1])
    elif damage == "no file":
        data.unlink()
    elif damage == "half info":
        (folder / "checkpoint.json").write_text('{"step": 2, "fi')
    else:
        text = (folder / "checkpoint.json").read_text()
        (folder / "checkpoint.json").write_text(text.replace('"step": 2', '"step": 3'))
    latest = checkpoints.latest()
    assert latest.step == 1
    assert latest.extra == {"unfinished": [[1, -1]]}
    assert not folder.exists()
    np.testing.assert_array_equal(latest.load()["weights"], np.ones(10))
    checkpoints.save(snapshot(2, 3.0))
    checkpoints.wait()
    np.testing.assert_array_equal(checkpoints.latest().load()["weights"], np.full(10, 3.0))


def test_the_error_of_a_damaged_checkpoint_names_the_folder_to_delete(checkpoints, tmp_path):
    checkpoints.save(snapshot(1))
    checkpoints.wait()
    data = tmp_path / "checkpoints/step-0000000001/state.data-00000-of-00001"
    data.write_bytes(bytes(len(data.read_bytes())))
    with pytest.raises(TrainerError, match=r"step-0000000001 .*delete .*--fresh"):
        checkpoints.latest().load()


def test_weights_that_are_not_finite_are_not_saved(checkpoints, tmp_path):
    with pytest.raises(DivergedError, match=r"step 3: .*weights.* not finite"):
        checkpoints.save(snapshot(3, float("nan")))
    assert steps_in(tmp_path) == []


def test_a_failed_write_is_raised_at_the_next_save(checkpoints, tmp_path):
    (tmp_path / "checkpoints").write_text("a file in the place of the folder")
    checkpoints.save(snapshot(1))
    with pytest.raises(tf.errors.OpError):
        checkpoints.save(snapshot(2))
