"""Truncated or damaged shards are named, or skipped up to a number of examples."""

import shutil
from dataclasses import replace

import pytest
import tensorflow as tf

from tests.support.data.encoded_tables import make_example
from tests.support.data.files import flipped
from trainer.errors import InputError
from trainer.examples import bad_records, tables
from trainer.examples.manifest import (
    ShardFile,
    SplitFiles,
    checked_split,
    read_manifest,
    read_statistics,
)
from trainer.examples.tables import Decoder, SplitChunks, whole
from trainer.training import facts
from trainer.training.checkpoint import read_checkpoint
from trainer.training.facts import find_facts, read_facts
from trainer.workloads import Binary, Category, Table, Text, load_workload

SHARD = "train-00001-of-00003.tfrecord.gz"


@pytest.fixture(params=["cut short", "flipped byte", "no gzip"])
def damaged(request, examples_dir, tmp_path):
    """A copy of the examples whose second of three train shards (171 of 512) is damaged."""
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    data = (folder / SHARD).read_bytes()
    changed = {
        "cut short": data[: len(data) // 2],
        "flipped byte": flipped(data),
        "no gzip": b"x" * 50,
    }
    (folder / SHARD).write_bytes(changed[request.param])
    return read_manifest(str(folder), workload="mnist")


def test_file_and_record_are_named(damaged):
    with pytest.raises(
        InputError, match=rf"{SHARD} .*record \d+ .* \d+ examples are unreadable; prepare"
    ):
        checked_split(damaged, "train")


def test_a_replaced_file_is_never_used(examples_dir, tmp_path):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    shutil.copy(folder / "train-00000-of-00003.tfrecord.gz", folder / SHARD)
    with pytest.raises(InputError, match="differs from the manifest's sha256"):
        checked_split(read_manifest(str(folder), workload="mnist"), "train")


@pytest.mark.parametrize(
    "content",
    [b"", b'{"splits": "\xff"}', b'{"splits": {', b"[]", b"null", b"{}", b'{"splits": []}'],
    ids=["empty", "not-utf-8", "cut", "list", "null", "without-fields", "other-types"],
)
def test_damaged_json_is_named_or_unused(examples_dir, tmp_path, monkeypatch, content):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    split = read_manifest(str(folder), workload="mnist").splits["train"]
    for name in ("manifest.json", "statistics.json", "examples.json", "checkpoint.json"):
        (folder / name).write_bytes(content)

    with pytest.raises(InputError, match=r"manifest\.json is damaged .*prepare the examples again"):
        read_manifest(str(folder), workload="mnist")
    assert read_statistics(split) is None, "the examples are read instead"
    assert read_checkpoint(str(folder)) is None, "the previous checkpoint is used"
    monkeypatch.setattr(facts, "list_checkpoints", lambda directory: [directory])
    with pytest.raises(InputError, match=r"examples\.json is damaged .*--fresh to start over"):
        read_facts(str(folder), split, workload=load_workload("mnist"))


@pytest.mark.parametrize(
    "text", ['{"splits": {"train": {"features": {}}}}', '{"splits": {"train": []}}']
)
def test_incomplete_statistics_are_not_used(examples_dir, tmp_path, text):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    (folder / "statistics.json").write_text(text)
    assert read_statistics(read_manifest(str(folder), workload="mnist").splits["train"]) is None


def image_example(num_bytes=784, num_images=1, label=3):
    return make_example({"image": [bytes([7]) * num_bytes] * num_images, "label": label})


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """Write two files of 30 records, the given ones in the second; return the split.

    They are read, and searched, 8 at a time.
    """
    monkeypatch.setattr(tables, "CHUNK_SIZE", 8)
    monkeypatch.setattr(bad_records, "_BATCH_SIZE", 8)

    def write(records, *, num_more=0):
        shards = []
        for number in range(2):
            path = tmp_path / f"test-{number}.tfrecord"
            content = [image_example()] * 30
            if number:
                content[20 : 20 + len(records)] = records
                content += [image_example()] * num_more
            with tf.io.TFRecordWriter(str(path)) as writer:
                for record in content:
                    writer.write(record)
            shards.append(ShardFile(path=str(path), num_examples=30, sha256=""))
        return SplitFiles(name="test", num_examples=60, shards=tuple(shards))

    return write


def read_whole(split, decoder):
    return decoder.read(whole(split), num_expected=split.num_examples)


def read_chunks(split, decoder):
    return list(SplitChunks(split, decoder))


BAD_RECORDS = {
    "short": (image_example(783), r"an image does not have 784 bytes.*image: 783 bytes, label: 3"),
    "empty": (image_example(0), r"an image does not have 784 bytes.*image: 0 bytes"),
    "two images": (image_example(num_images=2), "image: 2 values, label: 3"),
    "no image": (image_example(num_images=0), "image: 0 values"),
    "another label": (image_example(label=12), "a label is not below 10.*label: 12"),
    "nothing": (b"", "its 0 bytes are a tf.train.Example without features"),
    "a text": (b"1,2,3\n", "its 6 bytes are not a tf.train.Example"),
    # TensorFlow's message quotes the record and cannot be decoded.
    "not UTF-8": (b"\xff\xfe\x80" * 20, "its 60 bytes are not a tf.train.Example"),
}


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        *((read_whole, kind) for kind in BAD_RECORDS),
        *((read_chunks, kind) for kind in ("short", "not UTF-8")),
    ],
)
def test_a_record_without_an_image_of_this_size_is_named(foreign, read, kind):
    record, reason = BAD_RECORDS[kind]
    split = foreign([record, image_example(), record])
    decoder = Decoder(workload=load_workload("mnist"), compression="")
    expected = rf"test-1\.tfrecord, record 20 \(the first is 0\): .*{reason}"
    with pytest.raises(InputError, match=expected):
        read(split, decoder)


@pytest.mark.parametrize("feature", [Category("plan", min_count=1), Text("plan")])
def test_a_text_that_is_not_utf_8_is_named(tmp_path, feature):
    path = tmp_path / "train.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for text in (b"caf\xc3\xa9", b"caf\xe9", b"tea"):
            writer.write(make_example({"plan": text, "left": 1}))
    shard = ShardFile(path=str(path), num_examples=3, sha256="")
    split = SplitFiles(name="train", num_examples=3, shards=(shard,))
    table = Table([feature], label=Binary("left"), name="own")
    expected = (
        r"train\.tfrecord, record 1 \(the first is 0\): plan is b'caf\\xe9', which is not UTF-8"
    )
    with pytest.raises(InputError, match=expected):
        find_facts(table, split, compression="")


def test_colour_images_of_another_size_are_refused(foreign):
    decoder = Decoder(workload=load_workload("cifar10"), compression="")
    reason = r"test-0\.tfrecord, record 0 .*an image does not have 3072 bytes.*image: 784 bytes"
    with pytest.raises(InputError, match=reason):
        decoder.read(whole(foreign([])), num_expected=60)


@pytest.mark.parametrize("read", [read_whole, read_chunks])
@pytest.mark.parametrize("num_more", [-2, 1, 30])
def test_the_file_with_another_number_of_examples_is_named(foreign, num_more, read):
    split = foreign([], num_more=max(num_more, 0))
    if num_more < 0:
        first, second = split.shards
        more = replace(second, num_examples=30 - num_more)
        split = replace(split, shards=(first, more), num_examples=60 - num_more)
    decoder = Decoder(workload=load_workload("mnist"), compression="")
    reason = r"test-1\.tfrecord (holds more examples than the 30|is damaged from record 30 on)"
    with pytest.raises(InputError, match=reason):
        read(split, decoder)
