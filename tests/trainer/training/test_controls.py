"""Training controls in a whole job, all at once."""

import numpy as np

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.csv_tables import write_table
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


WORKLOAD = """
from trainyard import Number, Regression, Table
workload = Table([Number("x"), Number("z")], label=Regression("y"))
"""


def test_the_default_model_learns_a_label_in_a_small_unit(tmp_path):
    numbers = np.random.default_rng(1).normal(size=(300, 2))
    rows = [{"x": x, "z": z, "y": (5 * x + z) * 1e-9} for x, z in numbers.tolist()]
    (tmp_path / "own").mkdir()
    (tmp_path / "own/workload.py").write_text(WORKLOAD)
    options = PrepareOptions(files=(write_table(tmp_path / "rows.csv", rows),))
    workload, examples = str(tmp_path / "own"), tmp_path / "examples"
    prepare(workload, output_dir=examples, data_dir=tmp_path, options=options)
    train(examples, tmp_path, workload=workload, steps=400)
    assert read_lines(tmp_path, "eval")[-1]["r2"] > 0.9
