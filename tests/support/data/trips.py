"""A prepared dataset of made-up taxi trips."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from trainer import Json
from trainer.runtime.tensorflow_logs import import_tensorflow


@pytest.fixture(scope="session")
def trips_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write trips whose tip is big if they are paid by card and have a company."""
    folder = tmp_path_factory.mktemp("trips")
    random = np.random.default_rng(5)
    splits = {name: write_trips(folder, name, 300, random) for name in ("train", "eval", "test")}
    manifest = {"workload": "taxi", "compression": "GZIP", "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def write_trips(folder: Path, name: str, count: int, random: np.random.Generator) -> Json:
    """Write a split as one shard; return its entry in the manifest."""
    import_tensorflow()
    import tensorflow as tf

    path = folder / f"{name}-00000-of-00001.tfrecord.gz"
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for _ in range(count):
            writer.write(make_trip(random))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    shard = {"file": path.name, "num_examples": count, "sha256": digest}
    return {"num_examples": count, "shards": [shard]}


def make_trip(random: np.random.Generator) -> bytes:
    """Return a serialized example."""
    import tensorflow as tf

    is_card, has_company = random.random() < 0.5, random.random() < 0.7
    feature = {"payment_type": tf.train.Feature(bytes_list={"value": [b"Cash"]})}
    if is_card:
        feature["payment_type"] = tf.train.Feature(bytes_list={"value": [b"Credit Card"]})
    if has_company:
        feature["company"] = tf.train.Feature(bytes_list={"value": ["Café Cabs".encode()]})
    feature["fare"] = tf.train.Feature(float_list={"value": [random.gamma(2, 6)]})
    feature["trip_start_hour"] = tf.train.Feature(int64_list={"value": [random.integers(24)]})
    label = [int(is_card and has_company)]
    feature["big_tipper"] = tf.train.Feature(int64_list={"value": label})
    return tf.train.Example(features={"feature": feature}).SerializeToString()
