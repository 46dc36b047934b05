"""Runs of a single replica in this process: stopped, resumed, started over."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.trainer.support.jobs import CPU, new_job, steps_in
from trainer.errors import ConfigError, Preempted
from trainer.loop import train_synchronously
from trainer.serving.export import load_predictor


def train(examples_dir, out, *, should_stop=False, **settings):
    job = new_job(examples_dir, out, **{"steps": 20, **settings})
    if should_stop:
        job.stop.set()
    train_synchronously(job, [CPU])
    return load_predictor(str(out / "model"))


def test_a_job_resumed_or_started_over_ends_with_the_weights_of_an_uninterrupted_one(
    examples_dir, tmp_path, caplog
):
    caplog.set_level("INFO")
    images = np.random.default_rng(1).integers(0, 256, (5, 784)).tolist()

    def probabilities(name, **settings):
        caplog.clear()
        predictor = train(examples_dir, tmp_path / name, steps_per_call=10, **settings)
        return [row["probabilities"] for row in predictor.predict(images)]

    whole = probabilities("whole")
    with pytest.raises(Preempted, match="step 10 is saved"):
        probabilities("halves", should_stop=True)
    np.testing.assert_allclose(probabilities("halves"), whole, atol=1e-6)
    assert "resuming from step 10" in caplog.text
    np.testing.assert_allclose(probabilities("halves"), whole, atol=1e-6)
    assert "nothing is left to train: step 20 was the last" in caplog.text
    with pytest.raises(ConfigError, match=r"has 20 steps, more than the 10 .*nothing would be"):
        probabilities("halves", steps=10)
    np.testing.assert_allclose(probabilities("halves", fresh=True), whole, atol=1e-6)
    assert "resuming" not in caplog.text


def test_checkpoints_are_saved_by_seconds(examples_dir, tmp_path, monkeypatch):
    half_seconds = (0.5 * count for count in range(1000))
    clock = SimpleNamespace(monotonic=lambda: next(half_seconds))
    monkeypatch.setattr("trainer.training.results.results.time", clock)

    often = {"checkpoint_every_seconds": 1, "checkpoint_every_steps": 1, "keep_checkpoints": 100}
    train(examples_dir, tmp_path, steps=7, steps_per_call=1, **often)

    assert steps_in(tmp_path) == [2, 4, 6, 7], "each step takes half a second of this clock"
