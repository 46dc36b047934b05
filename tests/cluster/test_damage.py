"""Shards that are cut short or damaged: named, or left out up to a number."""

import shutil

import pytest

from trainer.errors import InputError
from trainer.quiet import import_tensorflow
from trainer.workloads import load_workload

import_tensorflow()

from trainer.input import read_table  # noqa: E402
from trainer.manifest import checked_split, read_manifest  # noqa: E402

pytestmark = pytest.mark.timeout(60)
SHARD = "train-00001-of-00003.tfrecord.gz"


@pytest.fixture(params=["cut short", "flipped byte", "no gzip"])
def damaged(request, examples_dir, tmp_path):
    """A copy of the examples whose second of three train shards (171 of 512) is damaged."""
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    data = (folder / SHARD).read_bytes()
    middle = len(data) // 2
    changed = {
        "cut short": data[:middle],
        "flipped byte": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "no gzip": b"x" * 50,
    }
    (folder / SHARD).write_bytes(changed[request.param])
    return read_manifest(str(folder), workload="mnist")


def test_file_and_record_are_named(damaged):
    with pytest.raises(InputError, match=rf"{SHARD} is damaged from record \d+ on .*allows 0 more"):
        checked_split(damaged, "train")


def test_some_examples_may_be_left_out(damaged, caplog):
    with pytest.raises(InputError, match="--skip-corrupt allows 3 more"):
        checked_split(damaged, "train", skip_corrupt=3)
    split = checked_split(damaged, "train", skip_corrupt=171)
    assert 512 - 171 <= split.num_examples < 512
    assert f"going on without {512 - split.num_examples} examples" in caplog.text
    features, labels = read_table(split, load_workload("mnist"), compression="GZIP")
    assert len(labels) == len(features["image"]) == split.num_examples


def test_another_file_in_its_place_is_never_taken(examples_dir, tmp_path):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    shutil.copy(folder / "train-00000-of-00003.tfrecord.gz", folder / SHARD)
    with pytest.raises(InputError, match="differs from the manifest's sha256"):
        checked_split(read_manifest(str(folder), workload="mnist"), "train", skip_corrupt=512)
