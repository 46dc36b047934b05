"""Keras callbacks of a workload, and the checkpoints of a compiled optimizer, in whole jobs."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support import jobs
from tests.trainer.support.compiled import write_workload
from trainer.errors import ConfigError
from trainer.training.checkpoint import read_checkpoint
from trainer.training.parameters import Parameters
from trainer.training.results.results import Results

SGD = "keras.optimizers.SGD(0.08, momentum=0.9)"


def train(folder, examples_dir, out, **settings):
    """Train; return the job and the lines of metrics.jsonl by split."""
    settings = {"log_every_steps": 8, "steps_per_call": 8, **settings}
    job = jobs.train(examples_dir, out, workload=str(folder), **settings)
    return job, {split: jobs.read_lines(out, split) for split in ("train", "eval")}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_callbacks_get_the_logs_of_fit_and_change_the_rate(examples_dir, tmp_path):
    callbacks = (
        "[keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.5, min_delta=100),"
        " keras.callbacks.History()]"
    )
    folder = write_workload(tmp_path, optimizer=SGD, callbacks=callbacks)
    out = tmp_path / "out"
    _, lines = train(folder, examples_dir, out, epochs=3)
    # An epoch has 16 steps. The rate of the second plateau is saved, and used after a restart.
    rates = {line["step"]: line["learning_rate"] for line in lines["train"]}
    assert [rates[step] for step in (16, 32, 40)] == pytest.approx([0.08, 0.08, 0.04])
    saved = jobs.last_checkpoint(out).load()
    assert float(saved["learning_rate"]) == pytest.approx(0.02)
    job, lines = train(folder, examples_dir, out, epochs=5)
    rates = {line["step"]: line["learning_rate"] for line in lines["train"]}
    assert [rates[step] for step in (56, 72)] == pytest.approx([0.02, 0.02])

    _, history = job.workload.callbacks
    assert history.epoch == [3, 4]
    assert set(history.history) == {"loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"}
    last = lines["eval"][-1]
    assert history.history["val_loss"][-1] == pytest.approx(last["loss"])
    steps = [line["loss"] for line in lines["train"] if line["step"] > 64]
    assert history.history["loss"][-1] == pytest.approx(np.mean(steps), rel=1e-5)


def exported_weights(out):
    variables = jobs.exported_variables(out / "model")[:4]
    return np.concatenate([variable.ravel() for variable in variables])


@pytest.fixture
def late_updates(monkeypatch):
    """Let a worker's last update arrive on the servers while the model is exported."""
    export, snapshot = Results.export, Parameters.snapshot

    def update_first(parameters):
        for piece in parameters.pieces:
            piece.weights.assign_add(tf.ones_like(piece.weights))
        return snapshot(parameters)

    def export_late(results):
        with monkeypatch.context() as late:
            late.setattr(Parameters, "snapshot", update_first)
            export(results)

    monkeypatch.setattr(Results, "export", export_late)


@pytest.mark.usefixtures("late_updates")
@pytest.mark.parametrize("restores_best", [False, True])
def test_early_stopping_ends_training_with_the_weights_that_it_wants(
    examples_dir, tmp_path, caplog, restores_best
):
    caplog.set_level("INFO")
    stop = (
        "[keras.callbacks.EarlyStopping(monitor='val_accuracy', min_delta=100, patience=1,"
        f" restore_best_weights={restores_best})]"
    )
    folder = write_workload(tmp_path, optimizer="keras.optimizers.Adam(0.01)", callbacks=stop)
    out = tmp_path / "out"
    _, lines = train(folder, examples_dir, out, epochs=9)
    assert [line["step"] for line in lines["eval"]] == [16, 32]
    assert "a callback has stopped it" in caplog.text
    assert "exporting the last checkpoint, of step 32\n" in caplog.text
    exported = exported_weights(out)
    for step, is_wanted in ((16, restores_best), (32, True)):  # the first is the best
        saved = read_checkpoint(f"{out}/checkpoints/step-{step:010d}").load()
        assert np.array_equal(exported, saved["weights"]) == is_wanted
    if not restores_best:
        _, after = train(folder, examples_dir, out, epochs=9)
        assert after == lines, "it trains again"
        np.testing.assert_array_equal(exported_weights(out), exported)


@pytest.mark.parametrize(
    ("callbacks", "settings", "message"),
    [
        ("[print]", {}, r"callbacks: builtin.* is not a keras.callbacks.Callback"),
        ("()", {"learning_rate": 0.1}, r"--learning-rate: .*compiled with SGD"),
        ("()", {"schedule": "cosine"}, r"--schedule: .*compiled with SGD"),
        ("()", {"best_metric": "auc"}, r"--best-metric: 'auc'.*accuracy"),
    ],
    ids=["no callback", "rate", "flag", "metric"],
)
def test_settings_that_cannot_be_are_named_before_training(
    examples_dir, tmp_path, callbacks, settings, message
):
    folder = write_workload(tmp_path, optimizer=SGD, callbacks=callbacks)
    with pytest.raises(ConfigError, match=message):
        train(folder, examples_dir, tmp_path / "out", steps=8, **settings)


@pytest.mark.parametrize(
    "optimizer",
    ["keras.optimizers.Nadam(0.01, use_ema=True)", "keras.optimizers.Adafactor(0.01)"],
)
def test_a_resumed_compiled_job_ends_with_the_same_bits(examples_dir, tmp_path, optimizer):
    folder = write_workload(tmp_path, optimizer=optimizer)
    settings = {"steps": 24, "checkpoint_every_steps": 8, "keep_checkpoints": 3}
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train(folder, examples_dir, whole, **settings)
    # As it was after 8 steps.
    later = shutil.ignore_patterns("step-*16", "step-*24")
    shutil.copytree(whole / "checkpoints", resumed / "checkpoints", ignore=later)
    _, lines = train(folder, examples_dir, resumed, **settings)
    assert [line["step"] for line in lines["train"]] == [16, 24]
    expected, found = (jobs.last_checkpoint(out).load() for out in (whole, resumed))
    assert set(expected) == set(found)
    assert len(expected) > 4
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)
