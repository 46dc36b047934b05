"""Keras callbacks of a workload, and the checkpoints of a compiled optimizer, in whole jobs."""

import json
import shutil
import threading

import numpy as np
import pytest

from tests.trainer.support.compiled import write_workload
from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.errors import ConfigError
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.training.checkpoint import list_checkpoints, read_checkpoint

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.loop import train_synchronously  # noqa: E402
from trainer.training.job import make_job  # noqa: E402
from trainer.training.parameters import Parameters  # noqa: E402
from trainer.training.results.results import Results  # noqa: E402

pytestmark = pytest.mark.timeout(180)
SGD = "keras.optimizers.SGD(0.08, momentum=0.9)"


def train(folder, examples_dir, out, *, num_devices=1, **settings):
    """Train; return the job and the lines of metrics.jsonl by split."""
    config = TrainConfig(
        workload=str(folder),
        examples_dir=str(examples_dir),
        batch_size=32,
        log_every_steps=8,
        steps_per_call=8,
        **settings,
    )
    job = make_job(config, Cluster(), resolve_folders(str(out), {}), threading.Event())
    train_synchronously(job, ["/device:CPU:0"] * num_devices)
    lines = list(map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines()))
    return job, {
        split: [line for line in lines if line["split"] == split] for split in ("train", "eval")
    }


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
    saved = list_checkpoints(str(out / "checkpoints"))[-1].load()
    assert float(saved["learning_rate"]) == pytest.approx(0.02)
    job, lines = train(folder, examples_dir, out, epochs=5)
    rates = {line["step"]: line["learning_rate"] for line in lines["train"]}
    assert [rates[step] for step in (56, 72)] == pytest.approx([0.02, 0.02])

    _, history = job.workload.callbacks
    assert history.epoch == [3, 4]
    assert set(history.history) == {
        *("loss", "accuracy", "val_loss", "val_accuracy", "learning_rate")
    }
    last = lines["eval"][-1]
    assert history.history["val_loss"][-1] == pytest.approx(last["loss"])
    steps = [line["loss"] for line in lines["train"] if line["step"] > 64]
    assert history.history["loss"][-1] == pytest.approx(np.mean(steps), rel=1e-5)


def exported_weights(out):
    exported = tf.train.load_checkpoint(str(out / "model/variables/variables"))
    names = [f"_variables/{index}/.ATTRIBUTES/VARIABLE_VALUE" for index in range(4)]
    return np.concatenate([exported.get_tensor(name).ravel() for name in names])


@pytest.fixture
def late_updates(monkeypatch):
    """Let a worker's last update arrive on the servers while the model is exported."""
    export, snapshot = Results.export, Parameters.snapshot

    def update_first(parameters):
        for piece in parameters.pieces:
            piece.weights.assign_add(tf.ones_like(piece.weights))
        return snapshot(parameters)

    def export_late(results):
        monkeypatch.setattr(Parameters, "snapshot", update_first)
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
    _, lines = train(folder, examples_dir, tmp_path / "out", epochs=9)
    assert [line["step"] for line in lines["eval"]] == [16, 32]
    assert "a callback has stopped it" in caplog.text
    assert "exporting the last checkpoint, of step 32\n" in caplog.text
    exported = exported_weights(tmp_path / "out")
    for step, is_wanted in ((16, restores_best), (32, True)):  # the first is the best
        saved = read_checkpoint(f"{tmp_path}/out/checkpoints/step-{step:010d}").load()
        assert np.array_equal(exported, saved["weights"]) == is_wanted


def test_a_job_that_a_callback_has_stopped_does_not_train_again(examples_dir, tmp_path):
    stop = "[keras.callbacks.EarlyStopping(monitor='val_accuracy', min_delta=100, patience=1)]"
    folder = write_workload(tmp_path, optimizer="keras.optimizers.Adam(0.01)", callbacks=stop)
    out = tmp_path / "out"
    _, before = train(folder, examples_dir, out, epochs=9)
    weights = exported_weights(out)
    _, after = train(folder, examples_dir, out, epochs=9)
    assert after == before, "a call of the graph is recorded"
    np.testing.assert_array_equal(exported_weights(out), weights)


@pytest.mark.parametrize(
    ("optimizer", "callbacks", "settings", "message"),
    [
        (SGD, "[print]", {}, r"callbacks: builtin.* is not a keras.callbacks.Callback"),
        (
            "keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 9))",
            "[keras.callbacks.ReduceLROnPlateau()]",
            {},
            r"ReduceLROnPlateau .* number",
        ),
        (SGD, "()", {"learning_rate": 0.1}, r"--learning-rate: .*compiled with SGD"),
        (SGD, "()", {"schedule": "cosine"}, r"--schedule: .*compiled with SGD"),
        (SGD, "()", {"best_metric": "auc"}, r"--best-metric: 'auc'.*accuracy"),
        (f"keras.optimizers.LossScaleOptimizer({SGD})", "()", {}, r"LossScaleOptimizer.*bfloat16"),
    ],
    ids=["no callback", "schedule", "rate", "flag", "metric", "float16"],
)
def test_settings_that_cannot_be_are_named_before_training(  # noqa: PLR0917
    examples_dir, tmp_path, optimizer, callbacks, settings, message
):
    folder = write_workload(tmp_path, optimizer=optimizer, callbacks=callbacks)
    with pytest.raises(ConfigError, match=message):
        train(folder, examples_dir, tmp_path / "out", steps=8, **settings)


@pytest.mark.parametrize(
    "optimizer",
    ["keras.optimizers.Nadam(0.01, use_ema=True)", "keras.optimizers.Adafactor(0.01)"],
)
def test_a_resumed_compiled_job_ends_with_the_same_bits(examples_dir, tmp_path, optimizer):
    folder = write_workload(tmp_path, optimizer=optimizer)
    settings = {"steps": 24, "checkpoint_every_steps": 8, "keep_checkpoints": 3, "num_devices": 2}
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train(folder, examples_dir, whole, **settings)
    # As it was after 8 steps.
    later = shutil.ignore_patterns("step-*16", "step-*24")
    shutil.copytree(whole / "checkpoints", resumed / "checkpoints", ignore=later)
    _, lines = train(folder, examples_dir, resumed, **settings)
    assert [line["step"] for line in lines["train"]] == [16, 24]
    expected, found = (
        list_checkpoints(str(out / "checkpoints"))[-1].load() for out in (whole, resumed)
    )
    assert set(expected) == set(found)
    assert len(expected) > 4
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)
