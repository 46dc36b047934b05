"""Examples that a benchmark makes: a TFRecord file for each split, and the manifest.

Not a benchmark itself.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, NDArray[np.float64] | NDArray[np.int64]]


def write_examples(folder: Path, rows_by_split: Mapping[str, Iterable[Row]]) -> None:
    """Write the rows of each split: whole numbers as int64, others as float."""
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    def feature(values: NDArray[np.float64] | NDArray[np.int64]) -> tf.train.Feature:
        if np.issubdtype(values.dtype, np.integer):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    def serialize(row: Row) -> bytes:
        features = {name: feature(values) for name, values in row.items()}
        example = tf.train.Example(features=tf.train.Features(feature=features))
        return bytes(example.SerializeToString())

    write_records(folder, {split: map(serialize, rows) for split, rows in rows_by_split.items()})


def write_records(folder: Path, records_by_split: Mapping[str, Iterable[bytes]]) -> None:
    """Write serialized examples, uncompressed; the workload has the folder's name."""
    import tensorflow as tf

    splits = {}
    for split, records in records_by_split.items():
        path, count = folder / f"{split}-00000-of-00001.tfrecord", 0
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
                count += 1
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        shard = {"file": path.name, "num_examples": count, "sha256": digest}
        splits[split] = {"num_examples": count, "shards": [shard]}
    manifest = {"workload": folder.name, "compression": "", "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(manifest))
