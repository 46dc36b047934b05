import struct
import sys
from pathlib import Path

import pytest

from components.prepare_examples.cli import main
from components.prepare_examples.errors import DataError
from components.prepare_examples.images.raw_files import open_idx, splits_of
from components.prepare_examples.output import publish
from components.prepare_examples.tfrecords.shards import Rows, limit_splits, plan_shards
from trainer import paths
from trainer.workloads.data_sets import MNIST

pytestmark = pytest.mark.fast

MNIST_SPLITS = {
    "train": Rows("train", 0, 55_000),
    "eval": Rows("train", 55_000, 60_000),
    "test": Rows("t10k", 0, 10_000),
}


def idx_file(tmp_path: Path, *, magic: bytes = b"\0\0\x08\x01", size: int = 3, data=b"abc") -> Path:
    path = tmp_path / "labels"
    path.write_bytes(magic + struct.pack(">I", size) + data)
    return path


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ({"magic": b"\0\0\x08\x03"}, "starts with 00000803, .* starts with 00000801"),
        ({"magic": b"\0\0\x0d\x01"}, "starts with 00000d01"),
        ({"data": b"ab"}, "has 10 bytes.* 11"),
        ({"data": b"abcd"}, "has 12 bytes.* 11"),
        ({"size": 2**32 - 1}, "has 11 bytes.* 4294967303"),
        (b"", "starts with"),
        (b"\0\0", "starts with"),
        (b"\0\0\x08\x01\0", "header of 8 bytes"),
    ],
)
def test_a_wrong_idx_file_is_refused_by_name(tmp_path, file, problem):
    path = idx_file(tmp_path, **(file if isinstance(file, dict) else {}))
    if isinstance(file, bytes):
        path.write_bytes(file)
    with pytest.raises(DataError, match=rf"labels: .*{problem}"):
        open_idx(path, row_shape=())


def test_images_of_another_size_are_refused(tmp_path):
    path = tmp_path / "images"
    path.write_bytes(struct.pack(">BBBBIII", 0, 0, 8, 3, 1, 2, 2) + bytes(4))
    with pytest.raises(DataError, match=r"shape \(2, 2\), expected \(28, 28\)"):
        open_idx(path, row_shape=(28, 28))


def test_wrong_labels_and_empty_splits_of_mnist_are_refused(tiny_mnist):
    with pytest.raises(DataError, match="the eval split would be empty"):
        limit_splits(splits_of(MNIST.format, tiny_mnist(num_train=11, num_test=1)), 0)
    labels = tiny_mnist(num_train=12, num_test=3) / "t10k-labels-idx1-ubyte"
    content = labels.read_bytes()
    labels.write_bytes(content[:-1] + b"\x0a")
    with pytest.raises(
        DataError, match=r"t10k-labels-idx1-ubyte: label 2 is 10; allowed are 0 to 9"
    ):
        splits_of(MNIST.format, labels.parent)
    for name in (labels.name, "train-labels-idx1-ubyte"):
        labels.with_name(name).write_bytes(content)
    with pytest.raises(DataError, match="12 images, train-labels-idx1-ubyte 3 labels"):
        splits_of(MNIST.format, labels.parent)


@pytest.mark.parametrize(
    ("max_examples", "train", "eval_", "test"),
    [(64, 51, 4, 9), (3, 1, 1, 1), *((most, 55_000, 5_000, 10_000) for most in (0, 70_000, 10**9))],
)
def test_a_limit_keeps_the_proportions_and_no_split_is_empty(max_examples, train, eval_, test):
    assert limit_splits(MNIST_SPLITS, max_examples) == {
        "train": Rows("train", 0, train),
        "eval": Rows("train", 55_000, 55_000 + eval_),
        "test": Rows("t10k", 0, test),
    }


@pytest.mark.parametrize("max_examples", [-1, 1, 2])
def test_a_limit_that_empties_a_split_is_refused(max_examples):
    with pytest.raises(DataError, match=f"max_examples is {max_examples}; allowed are 0"):
        limit_splits(MNIST_SPLITS, max_examples)


def test_shards_cover_each_split_once_in_order():
    shards = plan_shards(MNIST_SPLITS, {"train": 3})
    assert [shard.file for shard in shards] == [
        "train-00000-of-00003.tfrecord.gz",
        "train-00001-of-00003.tfrecord.gz",
        "train-00002-of-00003.tfrecord.gz",
        "eval-00000-of-00001.tfrecord.gz",
        "test-00000-of-00002.tfrecord.gz",
        "test-00001-of-00002.tfrecord.gz",
    ]
    assert [(shard.start, shard.stop) for shard in shards[:3]] == [
        (0, 18_333),
        (18_333, 36_666),
        (36_666, 55_000),
    ]


def test_no_shard_is_empty_and_no_split_without_one():
    shards = plan_shards({"test": Rows("t10k", 0, 1)}, {"test": 5})
    assert [shard.file for shard in shards] == ["test-00000-of-00001.tfrecord.gz"]


def test_a_bucket_is_read_where_vertex_mounts_it(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CLOUD_MOUNT", f"{tmp_path}/")
    assert publish.local_path("gs://bucket/raw") == tmp_path / "bucket" / "raw"
    assert publish.local_path("raw") == Path("raw")


def test_a_bucket_without_a_mount_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CLOUD_MOUNT", f"{tmp_path}/absent/")
    with pytest.raises(DataError, match="gs://bucket/raw: buckets are reached through"):
        publish.local_path("gs://bucket/raw")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--workload", "mnits"],
            "error: 'mnits' is not a workload; did you mean 'mnist'?",
        ),
        (["--workload", "mnist", "--max-examples", "-4"], "error: --max-examples is '-4'; it must"),
        (
            ["--workload", "mnist", "--num-shards", "train=0"],
            "error: --num-shards.train is '0'; it must be a whole number from 1",
        ),
        (["--workload", "taxi", "--files", "a", "--dry-run"], "prints the query to BigQuery"),
        (
            ["--workload", "taxi", "--ratios", "train"],
            "--ratios is 'train'; it must be numbers by name",
        ),
        (["--workload", "taxi", "--ratios", "trian=1"], "ratios are given for ['trian']; give one"),
    ],
)
def test_bad_arguments_exit_with_code_2_and_one_line(
    tmp_path, tiny_mnist, capsys, arguments, problem
):
    places = ["--output-dir", str(tmp_path / "out"), "--data-dir", str(tiny_mnist())]
    with pytest.raises(SystemExit, match="2"):
        sys.exit(main([*arguments, *places, "--trust-files"]))
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_never_replaced(tmp_path, tiny_mnist, capsys):
    (tmp_path / "thesis.tex").write_text("years of work")
    places = ["--output-dir", str(tmp_path), "--data-dir", str(tiny_mnist())]
    assert main(["--workload", "mnist", *places, "--trust-files"]) == 2
    assert "not part of a dataset" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").exists()
