"""Serialized examples of rows."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainer import Json
from trainer.runtime.tensorflow_logs import import_tensorflow


def make_example(row: Mapping[str, Any]) -> bytes:
    """Return a serialized tf.train.Example of a row; absent values, and None, are missing."""
    import tensorflow as tf

    example = tf.train.Example()
    for name, value in row.items():
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        values = [item.encode() if isinstance(item, str) else item for item in values]
        feature = example.features.feature[name]
        if not values or isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            feature.float_list.value.extend(values)
    return example.SerializeToString(deterministic=True)


def write_split(folder: Path, name: str, examples: Iterable[bytes], *, num_shards: int = 1) -> Json:
    """Write a split; return its entry in the manifest."""
    import_tensorflow()
    import tensorflow as tf

    records = list(examples)
    shards = []
    for index, part in enumerate(np.array_split(np.arange(len(records)), num_shards)):
        path = folder / f"{name}-{index:05d}-of-{num_shards:05d}.tfrecord.gz"
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for number in part:
                writer.write(records[number])
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        shards.append({"file": path.name, "num_examples": len(part), "sha256": digest})
    return {"num_examples": len(records), "shards": shards}
