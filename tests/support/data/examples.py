"""Serialized examples of rows."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

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


def write_split(folder: Path, name: str, examples: Iterable[bytes]) -> Json:
    """Write a split as one shard; return its entry in the manifest."""
    import_tensorflow()
    import tensorflow as tf

    records = list(examples)
    path = folder / f"{name}-00000-of-00001.tfrecord.gz"
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for record in records:
            writer.write(record)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    shard = {"file": path.name, "num_examples": len(records), "sha256": digest}
    return {"num_examples": len(records), "shards": [shard]}
