"""Tables of examples in memory: the order of each epoch, and damaged folders."""

import json
import shutil

import numpy as np
import pytest

from tests.trainer.support.tiny import NUM_INPUTS, Tiny
from trainer.errors import InputError
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import load_workload
from trainer.workloads.declarations.labels import Binary, Regression

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.examples.manifest import checked_split, read_manifest  # noqa: E402
from trainer.examples.tables import Decoder, batch_noise, batch_rows, read_table  # noqa: E402

pytestmark = pytest.mark.timeout(120)
MNIST = load_workload("mnist")


@pytest.mark.parametrize(
    ("num_examples", "batch_size"), [(1, 4), (2, 3), (10, 3), (128, 128), (100, 7)]
)
def test_each_epoch_uses_every_example_once_in_its_own_order(num_examples, batch_size):
    batches = [
        batch_rows(tf.constant(i), batch_size=batch_size, num_examples=num_examples, seed=3)
        for i in range(-(-3 * num_examples // batch_size))
    ]
    rows = np.concatenate([batch.numpy() for batch in batches])[: 3 * num_examples]
    epochs = rows.reshape(3, num_examples)
    for epoch in epochs:
        assert sorted(epoch) == list(range(num_examples))
    if num_examples >= 100:
        assert not np.array_equal(epochs[0], epochs[1])


@pytest.mark.parametrize("num_examples", [15_000, 45_000, 1_000_000])
def test_the_orders_of_epochs_and_seeds_are_independent(num_examples):
    orders = [
        batch_rows(
            tf.constant(epoch), batch_size=num_examples, num_examples=num_examples, seed=seed
        )
        for epoch, seed in ((0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 2))
    ]
    correlations = np.corrcoef(orders)[np.triu_indices(len(orders), 1)]
    # A permutation's correlation with another has the deviation 1 / sqrt(n).
    assert np.abs(correlations).max() < 5 / num_examples**0.5
    numbers = np.arange(num_examples)
    for order in orders:
        assert abs(np.corrcoef(order, numbers)[0, 1]) < 5 / num_examples**0.5
        assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 5 / num_examples**0.5


def test_noise_is_even_over_an_epoch_and_opposite_in_the_next():
    num_examples, batch_size, num_noise = 1000, 64, 3
    noise = np.full((4, num_examples, num_noise), np.nan)
    for index in range(-(-4 * num_examples // batch_size)):
        rows = batch_rows(
            tf.constant(index), batch_size=batch_size, num_examples=num_examples, seed=3
        )
        drawn = batch_noise(
            *(rows, tf.constant(index)), num_noise=num_noise, num_examples=num_examples, seed=3
        )
        for position in range(batch_size):
            epoch = (index * batch_size + position) // num_examples
            if epoch < 4:
                noise[epoch, rows[position]] = drawn[position]
    assert noise.min() >= 0
    assert noise.max() < 1
    for first, second in (noise[:2], noise[2:]):
        # Each of n equal parts of [0, 1) has one example.
        assert sorted((first[:, 0] * num_examples).astype(int)) == list(range(num_examples))
        assert np.array_equal(first < 0.5, second >= 0.5)
        np.testing.assert_allclose((second - first) % 1, 0.5, atol=1 / num_examples)
    columns = np.concatenate([noise[0], noise[2]], axis=1)
    correlations = np.corrcoef(columns.T)[np.triu_indices(2 * num_noise, 1)]
    assert np.abs(correlations).max() < 5 / num_examples**0.5


def test_noise_of_streamed_examples_is_that_of_their_batch():
    rows = tf.range(64, dtype=tf.int64)
    options = {"num_noise": 2, "num_examples": 64, "seed": 3, "is_streamed": True}
    first, second = (batch_noise(rows, tf.constant(index), **options) for index in (0, 1))
    assert abs(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1]) < 0.4
    other_rows = batch_noise(rows[::-1], tf.constant(0), **options)
    assert np.array_equal(first, other_rows)


def test_a_table_holds_all_shards_in_order(examples_dir):
    manifest = read_manifest(str(examples_dir), workload="mnist")
    split = checked_split(manifest, "train")
    features, labels = read_table(split, MNIST, compression="GZIP")
    assert features["image"].shape == (512, 28, 28)
    assert features["image"].dtype == tf.uint8
    assert len(labels) == 512


@pytest.mark.parametrize("label", [Regression(), Binary(positive=1)], ids=["number", "class"])
def test_only_examples_that_may_lack_a_label_are_decoded_without(label):
    inputs = tf.train.Feature(float_list=tf.train.FloatList(value=[0.0] * NUM_INPUTS))
    missing = tf.train.Feature(int64_list=tf.train.Int64List(value=[-1]))
    if isinstance(label, Regression):
        missing = tf.train.Feature(float_list=tf.train.FloatList(value=[np.nan]))
    features = tf.train.Features(feature={"x": inputs, "label": missing})
    records = tf.constant([tf.train.Example(features=features).SerializeToString()])
    decode = Decoder(workload=Tiny(label), compression="").traced_decode
    _, labels = decode(records, tf.constant(value=True))
    assert len(labels) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label is missing"):
        decode(records, tf.constant(value=False))


def break_json(folder):
    (folder / "manifest.json").write_text("{")


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
        (break_json, "manifest.json is damaged"),
        (break_counts, "manifest.json is damaged.*9 examples"),
        (break_file_name, "not a file name"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
        (
            lambda folder: (folder / "train-00002-of-00003.tfrecord.gz").unlink(),
            "train-00002-of-00003.tfrecord.gz is missing",
        ),
        (lambda folder: edit(folder, lambda splits: splits.pop("train")), "split 'train'"),
    ],
    ids=["not json", "wrong counts", "path in name", "no manifest", "no shard", "no split"],
)
def test_a_damaged_folder_is_named(examples_dir, tmp_path, damage, message):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    damage(folder)
    with pytest.raises(InputError, match=message):
        checked_split(read_manifest(str(folder), workload="mnist"), "train")


def test_too_many_records_for_the_manifest_are_noticed(examples_dir):
    manifest = read_manifest(str(examples_dir), workload="mnist")
    split = manifest.splits["train"]
    fewer = type(split)(name="train", num_examples=500, shards=split.shards)
    with pytest.raises(InputError, match="train-00000-of-00003"):
        read_table(fewer, MNIST, compression="GZIP")
