"""A workload of one large dense layer, on noise: as many weights as a benchmark asks for.

Not a benchmark itself.
"""

from pathlib import Path

import numpy as np

from benchmarks.support.clusters import CACHE
from benchmarks.support.records import write_examples

NUM_INPUTS, NUM_EXAMPLES, NUM_EVAL_EXAMPLES = 512, 4096, 64
UNITS = {0.1: 195, 1.0: 1946, 10.0: 19_455}  # of the layer, by millions of weights
WORKLOAD = f"""
import keras

from trainer.workloads import Records, Regression, Values


def model(inputs, *, units: int = 64):
    x = keras.layers.Dense(units, activation="relu")(inputs["x"])
    net = keras.Model(inputs, keras.layers.Dense(1)(x))
    net.compile(keras.optimizers.SGD(1e-3), keras.losses.MeanSquaredError())
    return net


workload = Records(
    {{"x": Values("float32", [{NUM_INPUTS}])}}, label=Regression("y"), model=model
)
"""


def examples() -> Path:
    """Return the folder of the workload, which has its examples, too; write it once."""
    folder = CACHE / "dense"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.py").write_text(WORKLOAD)
    if (folder / "manifest.json").exists():
        return folder
    random = np.random.default_rng(0)
    counts = {"train": NUM_EXAMPLES, "eval": NUM_EVAL_EXAMPLES}
    noise = {split: random.normal(size=(count, NUM_INPUTS)) for split, count in counts.items()}
    write_examples(
        folder, {split: [{"x": row, "y": row[:1]} for row in rows] for split, rows in noise.items()}
    )
    return folder
