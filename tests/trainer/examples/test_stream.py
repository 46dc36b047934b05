"""Examples that do not fit in memory: a stream in blocks, with each example once per epoch."""

import copy
import math
import shutil
from random import Random

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support.jobs import CPU, new_job, read_lines, train
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError, InputError
from trainer.examples.batches import Batches
from trainer.examples.manifest import ShardFile, SplitFiles, checked_split, read_manifest
from trainer.examples.stream import BlockTables, Stream, plan_stream
from trainer.examples.tables import (
    Decoder,
    SplitChunks,
    measure_example,
    read_table,
)
from trainer.loop import train_synchronously
from trainer.training.job import check_batch_size
from trainer.workloads import load_workload

DECODER = Decoder(workload=load_workload("mnist"), compression="GZIP")
# Blocks of ten steps of 32 digits: 28 * 28 pixels and a label of 8 bytes.
TEN_STEPS = {"cache": "stream", "cache_gb": 3 * 10 * 32 * 792 / 1e9}


def make_stream(random, *, seed):
    """Return a stream of random numbers of files, some of them empty, batches and blocks."""
    sizes = [random.choice([0, 1, random.randint(1, 40)]) for _ in range(random.randint(1, 7))]
    sizes[0] += 1
    shards = tuple(
        ShardFile(path=str(number), num_examples=size, sha256="")
        for number, size in enumerate(sizes)
    )
    return Stream(
        split=SplitFiles(name="train", num_examples=sum(sizes), shards=shards),
        batches=Batches(
            size=random.randint(1, 30),
            num_examples=sum(sizes),
            steps_per_block=random.choice([0, 1, random.randint(1, 12)]),
            seed=seed,
        ),
    )


def used_examples(stream, start, stop, *, random):
    """Return the (file, record) of each example of steps start … stop - 1, split at random."""
    tables, used, batches = {}, [], stream.batches
    order = batches.rows(tf.range(start, stop)).numpy()
    everything = [
        (shard.path, record)
        for shard in stream.split.shards
        for record in range(shard.num_examples)
    ]
    for step in range(start, stop):
        table = everything
        if batches.steps_per_block:
            block = step // batches.steps_per_block
            table = tables[block] if block in tables else read_names(stream, block)
            tables = {block: table}
        size = batches.last_size if batches.is_last(step) else batches.width
        num_parts = random.randint(1, size)
        for part in range(num_parts):
            taken = slice(size * part // num_parts, size * (part + 1) // num_parts)
            used += [table[row] for row in order[step - start, taken]]
    return used


def read_names(stream, block):
    return [
        (part.shard.path, record)
        for part in stream.slices(block)
        for record in range(part.skip, part.skip + part.take)
    ]


@pytest.mark.parametrize("seed", range(25))
def test_every_example_comes_once_per_epoch(seed):
    """For any numbers of files, examples, replicas and resumes, and any batch and block sizes."""
    random, num_epochs = Random(seed), 3
    stream = make_stream(random, seed=seed)
    size = stream.split.num_examples
    stop = num_epochs * stream.batches.per_epoch
    resumes = sorted(random.randint(0, stop) for _ in range(random.randint(0, 3)))
    used = []
    for first, last in zip([0, *resumes], [*resumes, stop], strict=True):
        used += used_examples(stream, first, last, random=random)
    epochs = [used[epoch * size : (epoch + 1) * size] for epoch in range(num_epochs)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) == size
    if size > 30:
        assert epochs[0] != epochs[1], "an epoch has an order of its own"


def test_a_block_is_read_as_it_was_planned(examples_dir):
    manifest = read_manifest(str(examples_dir), workload="mnist")
    split = checked_split(manifest, "train")
    images, labels = read_table(split, DECODER.workload, compression="GZIP")
    first_rows = {
        shard.path: sum(s.num_examples for s in split.shards[:i])
        for i, shard in enumerate(split.shards)
    }
    batches = Batches(size=30, num_examples=split.num_examples, steps_per_block=7, seed=1)
    stream = Stream(split=split, batches=batches)
    tables = BlockTables(stream, DECODER)
    for step in (15, 20, 21, 28):
        features, read_labels = tables.at(step, stop=30)
        rows = [first_rows[path] + record for path, record in read_names(stream, step // 7)]
        np.testing.assert_array_equal(features["image"], images["image"].numpy()[rows])
        np.testing.assert_array_equal(read_labels, labels.numpy()[rows])


@pytest.mark.parametrize(
    ("cache", "gigabytes", "steps"),
    [
        ("memory", 1e-9, 0),
        ("auto", 512 * 792 / 1e9, 0),
        ("auto", 511 * 792 / 1e9, 5),
        ("stream", 1e-9, 1),
        ("stream", 4.0, 16),
    ],
)
def test_blocks_depend_only_on_flags_and_examples(examples_dir, cache, gigabytes, steps):
    split = read_manifest(str(examples_dir), workload="mnist").splits["train"]
    config = TrainConfig(
        workload="mnist", examples_dir="-", cache=cache, cache_gb=gigabytes, batch_size=32
    )
    plans = [plan_stream(config, split, DECODER, most_steps=most) for most in (None, 3)]
    planned = [plan.batches.steps_per_block if plan else 0 for plan in plans]
    assert planned == [steps, min(3, steps)]


def of_unknown_size(features):
    image = tf.raw_ops.PlaceholderWithDefault(input=features["image"], shape=[None] * 3)
    return {"image": image}


def as_texts(features):
    return {"text": tf.fill(tf.shape(features["image"])[:1], "three")}


@pytest.mark.parametrize(
    ("encode", "size"), [(of_unknown_size, 28 * 28 + 8), (as_texts, 24 + 5 + 8)]
)
def test_examples_are_measured_if_shapes_do_not_tell_their_size(examples_dir, encode, size):
    split = read_manifest(str(examples_dir), workload="mnist").splits["train"]
    workload = copy.copy(load_workload("mnist"))
    vars(workload)["encode"] = encode
    assert measure_example(split, Decoder(workload=workload, compression="GZIP")) == size


def test_a_model_learns_from_a_stream(examples_dir, tmp_path):
    job = train(examples_dir, tmp_path, epochs=4, **TEN_STEPS)
    assert job.batches.steps_per_block == 10
    assert read_lines(tmp_path, "eval")[-1]["accuracy"] > 0.8


@pytest.mark.parametrize(
    ("most_rows", "most_bytes", "sizes"),
    [(math.inf, 1e6, [100]), (70, 1e6, [66, 34]), (math.inf, 1, [33, 33, 33, 1])],
)
def test_the_small_tables_of_a_split_are_the_split(
    examples_dir, monkeypatch, most_rows, most_bytes, sizes
):
    monkeypatch.setattr("trainer.examples.tables.CHUNK_SIZE", 33)
    monkeypatch.setattr("trainer.examples.tables.MAX_TABLE_BYTES", most_bytes)
    split = read_manifest(str(examples_dir), workload="mnist").splits["eval"]
    _, labels = read_table(split, DECODER.workload, compression="GZIP")
    tables = SplitChunks(split, DECODER, most_rows=most_rows)
    pieces = [piece.numpy() for _, piece in tables]
    assert [len(piece) for piece in pieces] == sizes
    np.testing.assert_array_equal(np.concatenate(pieces), labels)
    fewer = SplitFiles(name="eval", num_examples=99, shards=split.shards)
    with pytest.raises(InputError, match=r"100 examples.*manifest.* 99"):
        list(SplitChunks(fewer, DECODER))


def test_damage_during_training_is_named(examples_dir, tmp_path):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    job = new_job(folder, tmp_path / "out", epochs=2, **TEN_STEPS)
    shard = folder / "train-00001-of-00003.tfrecord.gz"
    shard.write_bytes(shard.read_bytes()[:-3000])
    with pytest.raises(InputError, match=rf"{shard.name} is damaged from record \d+ on .* prepare"):
        train_synchronously(job, [CPU])


@pytest.mark.parametrize(
    ("settings", "num_devices", "message"),
    [
        ({"batch_size": 3}, 4, r"--batch-size: 3 examples .* 4 devices; .* at least 4"),
        ({"batch_size": 8, "micro_batches": 4}, 3, r"--batch-size: 8 .* --micro-batches 4;.* 12"),
    ],
)
def test_a_batch_with_too_few_examples_is_refused(settings, num_devices, message):
    config = TrainConfig(workload="mnist", examples_dir="-", **settings)
    with pytest.raises(ConfigError, match=message):
        check_batch_size(config, num_devices=num_devices)
    check_batch_size(config, num_devices=1)


def test_it_is_refused_before_anything_is_read(start, tmp_path):
    flags = ["--workload", "mnist", "--examples-dir", tmp_path, "--output-dir", tmp_path / "out"]
    replica = start("small", *flags, "--batch-size", 2, "--cpu-devices", 3)
    assert replica.wait() == 2
    assert "--batch-size: 2 examples cannot be divided over 3 devices" in replica.log
