"""Training controls in a whole job, all at once."""

import numpy as np

from tests.trainer.support.jobs import read_lines, train
from trainer.serving.export import load_predictor


def test_all_controls_together_learn_and_serve_in_float32(examples_dir, tmp_path):
    train(
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
    assert read_lines(tmp_path, "eval")[-1]["accuracy"] > 0.9
    predictor = load_predictor(str(tmp_path / "model"))
    images = np.random.default_rng(1).integers(0, 256, (20, 784)).tolist()
    together = predictor.predict(images)
    alone = [predictor.predict([image])[0] for image in images]
    np.testing.assert_allclose(
        *([row["probabilities"] for row in rows] for rows in (together, alone)), atol=5e-6
    )
