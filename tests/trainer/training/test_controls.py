"""Training controls in a whole job: all at once, damaged data, early end."""

import json
import threading

import numpy as np
import pytest

from tests.support.data.evaluation import evaluate
from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

from trainer.loop import train_synchronously  # noqa: E402
from trainer.serving.export import load_predictor  # noqa: E402
from trainer.training.job import make_job  # noqa: E402

pytestmark = pytest.mark.timeout(120)


def train(examples_dir, out, **settings):
    """Train; return the predictor and the evaluations."""
    config = TrainConfig(
        workload="mnist", examples_dir=str(examples_dir), batch_size=32, **settings
    )
    job = make_job(config, Cluster(), resolve_folders(str(out), {}), threading.Event())
    train_synchronously(job, ["/device:CPU:0"])
    lines = map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines())
    return load_predictor(str(out / "model")), [line for line in lines if line["split"] == "eval"]


def test_all_controls_together_learn_and_serve_in_float32(examples_dir, tmp_path):
    predictor, measured = train(
        examples_dir,
        tmp_path,
        epochs=8,
        mixed_precision=True,
        micro_batches=2,
        clip_norm=5.0,
        label_smoothing=0.05,
        average_decay=0.9,
        weight_decay=0.01,
    )
    assert measured[-1]["accuracy"] > 0.9
    images = np.random.default_rng(1).integers(0, 256, (20, 784)).tolist()
    together = predictor.predict(images)
    alone = [predictor.predict([image])[0] for image in images]
    np.testing.assert_allclose(
        *([row["probabilities"] for row in rows] for rows in (together, alone)), atol=5e-6
    )


def test_training_ends_early_with_the_best_checkpoint(examples_dir, tmp_path, caplog):
    caplog.set_level("INFO")
    # The loss gets worse soon: the labels are learned in a few epochs.
    settings = {"epochs": 60, "patience": 2, "learning_rate": 0.02}
    predictor, measured = train(examples_dir, tmp_path, **settings)
    last = measured[-1]["step"]
    assert last < 60 * 16
    assert [line["step"] for line in measured] == list(range(16, last + 1, 16))
    best = min(measured, key=lambda line: line["loss"])
    assert f"best checkpoint, of step {best['step']}\n" in caplog.text
    assert evaluate(str(tmp_path / "model"), str(examples_dir), split="eval").metrics[
        "loss"
    ] == pytest.approx(best["loss"], rel=1e-3)
    again, _ = train(examples_dir, tmp_path, **settings)
    image = [[0] * 784]
    np.testing.assert_allclose(
        predictor.predict(image)[0]["probabilities"],
        again.predict(image)[0]["probabilities"],
        atol=1e-6,
    )
