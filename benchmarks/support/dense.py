"""A workload of one large dense layer, on noise: as many weights as a benchmark asks for.

Not a benchmark itself.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from benchmarks.support.clusters import CACHE

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
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    random = np.random.default_rng(0)
    splits = {}
    for split, count in (("train", NUM_EXAMPLES), ("eval", NUM_EVAL_EXAMPLES)):
        path = folder / f"{split}-00000-of-00001.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in random.normal(size=(count, NUM_INPUTS)):
                features = {
                    name: tf.train.Feature(float_list=tf.train.FloatList(value=values))
                    for name, values in {"x": row, "y": row[:1]}.items()
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        shard = {"file": path.name, "num_examples": count, "sha256": digest}
        splits[split] = {"num_examples": count, "shards": [shard]}
    manifest = {"workload": folder.name, "compression": "", "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
