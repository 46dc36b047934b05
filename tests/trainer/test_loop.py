"""Runs of a single replica in this process: stopped, resumed, started over."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.errors import ConfigError, Preempted
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

from trainer.loop import train_synchronously  # noqa: E402
from trainer.serving.export import load_predictor  # noqa: E402
from trainer.training.checkpoint import list_checkpoints  # noqa: E402
from trainer.training.job import make_job  # noqa: E402

pytestmark = pytest.mark.timeout(120)


def train(examples_dir, out, *, should_stop=False, **settings):
    settings = {"batch_size": 32, "steps": 20, **settings}
    config = TrainConfig(workload="mnist", examples_dir=str(examples_dir), **settings)
    stop = threading.Event()
    job = make_job(config, Cluster(), resolve_folders(str(out), {}), stop)
    if should_stop:
        stop.set()
    train_synchronously(job, ["/device:CPU:0"])
    return load_predictor(str(out / "model"))


def test_a_job_resumed_or_started_over_ends_with_the_weights_of_an_uninterrupted_one(
    examples_dir, tmp_path, caplog
):
    caplog.set_level("INFO")
    images = np.random.default_rng(1).integers(0, 256, (5, 784)).tolist()

    def probabilities(name, **settings):
        predictor = train(examples_dir, tmp_path / name, steps_per_call=10, **settings)
        return [row["probabilities"] for row in predictor.predict(images)]

    whole = probabilities("whole")
    with pytest.raises(Preempted, match="step 10 is saved"):
        probabilities("halves", should_stop=True)
    np.testing.assert_allclose(probabilities("halves"), whole, atol=1e-6)
    assert "resuming from step 10" in caplog.text
    caplog.clear()
    np.testing.assert_allclose(probabilities("halves", fresh=True), whole, atol=1e-6)
    assert "resuming" not in caplog.text


def test_a_job_says_that_nothing_is_left_to_train(examples_dir, tmp_path, caplog):
    caplog.set_level("INFO")
    train(examples_dir, tmp_path)
    train(examples_dir, tmp_path)
    assert "nothing is left to train: step 20 was the last" in caplog.text
    with pytest.raises(ConfigError, match=r"has 20 steps, more than the 10 .*nothing would be"):
        train(examples_dir, tmp_path, steps=10)


def test_a_batch_has_at_most_all_examples(examples_dir, tmp_path):
    train(examples_dir, tmp_path, steps=None, epochs=3, batch_size=2000)
    assert list_checkpoints(str(tmp_path / "checkpoints"))[-1].step == 3


def test_checkpoints_are_saved_by_seconds(examples_dir, tmp_path, monkeypatch):
    half_seconds = (0.5 * count for count in range(1000))
    clock = SimpleNamespace(monotonic=lambda: next(half_seconds))
    monkeypatch.setattr("trainer.training.results.results.time", clock)

    often = {"checkpoint_every_seconds": 1, "checkpoint_every_steps": 1, "keep_checkpoints": 100}
    train(examples_dir, tmp_path, steps_per_call=1, **often)

    saved = [checkpoint.step for checkpoint in list_checkpoints(str(tmp_path / "checkpoints"))]
    assert saved[:3] == [2, 4, 6], "each step takes half a second of this clock"
