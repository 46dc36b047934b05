"""Tables of examples in memory: the order of each epoch, and damaged folders."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.encoded_tables import make_example
from tests.trainer.support.tiny import NUM_INPUTS, Tiny
from trainer.errors import InputError
from trainer.examples.manifest import checked_split, read_manifest
from trainer.examples.tables import Decoder
from trainer.workloads.declarations.labels import Binary, Regression


@pytest.mark.parametrize("label", [Regression(), Binary(positive=1)], ids=["number", "class"])
def test_only_examples_that_may_lack_a_label_are_decoded_without(label):
    missing = np.nan if isinstance(label, Regression) else -1
    records = tf.constant([make_example({"x": [0.0] * NUM_INPUTS, "label": missing})])
    decode = Decoder(workload=Tiny(label), compression="").traced_decode
    _, labels = decode(records, tf.constant(value=True))
    assert len(labels) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label is missing"):
        decode(records, tf.constant(value=False))


def break_counts(folder):
    edit(folder, lambda splits: splits["train"].update(num_examples=9))


def break_file_name(folder):
    edit(folder, lambda splits: splits["train"]["shards"][0].update(file="../x"))


def edit(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest["splits"])
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_counts, "manifest.json is damaged.*9 examples"),
        (break_file_name, "not a file name"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
        (
            lambda folder: (folder / "train-00002-of-00003.tfrecord.gz").unlink(),
            "train-00002-of-00003.tfrecord.gz is missing",
        ),
        (lambda folder: edit(folder, lambda splits: splits.pop("train")), "split 'train'"),
    ],
    ids=["wrong counts", "path in name", "no manifest", "no shard", "no split"],
)
def test_a_damaged_folder_is_named(examples_dir, tmp_path, damage, message):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    damage(folder)
    with pytest.raises(InputError, match=message):
        checked_split(read_manifest(str(folder), workload="mnist"), "train")
