import base64
import hashlib
import json
import socket
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.shards import write_shard
from components.prepare_examples.output.quarantine import side_file_entry
from components.prepare_examples.prepare import prepare
from components.prepare_examples.raw_data.files import sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.statistics.schema import read_schema
from components.prepare_examples.tfrecords.image_encoder import ImageEncoder
from components.prepare_examples.tfrecords.records import RecordFile, record_file
from components.prepare_examples.tfrecords.shards import Shard
from components.prepare_examples.tfrecords.table_encoder import frame_records
from tests.support.data.prepared import files_of
from trainer.workloads.data_sets import CIFAR10, MNIST

TRUSTED = PrepareOptions(trust_files=True)
PARTS = (slice(0, 3), slice(3, 5))
SPECS = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid connections: Beam must not look for a runner, and no file be fetched."""

    def refuse(*arguments):
        raise AssertionError(f"connects to {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def read_split(folder: Path, split: str) -> tuple[list[bytes], list[int]]:
    files = sorted(str(path) for path in folder.glob(f"{split}-*"))
    records = tf.data.TFRecordDataset(files, compression_type="GZIP")
    parsed = [tf.io.parse_single_example(record, SPECS) for record in records]
    return [item["image"].numpy() for item in parsed], [int(item["label"]) for item in parsed]


def raw_rows(folder: Path, part: str, start: int, stop: int) -> tuple[list[bytes], list[int]]:
    images = (folder / f"{part}-images-idx3-ubyte").read_bytes()[16:]
    labels = (folder / f"{part}-labels-idx1-ubyte").read_bytes()[8:]
    return [images[row * 784 : (row + 1) * 784] for row in range(start, stop)], list(
        labels[start:stop]
    )


def test_every_example_is_written_once_in_the_given_order(tmp_path, tiny_mnist):
    data = tiny_mnist(num_train=60, num_test=20)
    prepare("mnist", output_dir=tmp_path / "out", data_dir=data, options=TRUSTED)
    assert read_split(tmp_path / "out", "train") == raw_rows(data, "train", 0, 55)
    assert read_split(tmp_path / "out", "eval") == raw_rows(data, "train", 55, 60)
    assert read_split(tmp_path / "out", "test") == raw_rows(data, "t10k", 0, 20)


def test_the_manifest_has_the_counts_and_digests_of_the_files(tmp_path, tiny_mnist):
    data = tiny_mnist(num_train=60, num_test=20)
    output = tmp_path / "out"
    manifest = prepare("mnist", output_dir=output, data_dir=data, options=TRUSTED)
    assert manifest == json.loads((output / "manifest.json").read_text())
    assert {name: split["num_examples"] for name, split in manifest["splits"].items()} == {
        "train": 55,
        "eval": 5,
        "test": 20,
    }
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    others = {"manifest.json", "statistics.json", "schema.pbtxt", "anomalies.json", "report.html"}
    assert {shard["file"] for shard in shards} | others == set(files_of(output))
    for shard in shards:
        content = (output / shard["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == shard["sha256"]
        crc32c = google_crc32c.value(content).to_bytes(4, "big")
        assert base64.b64decode(shard["crc32c"]) == crc32c
    assert [source["verified"] for source in manifest["sources"]] == [False] * 4
    assert manifest["compression"] == "GZIP"


def test_the_same_input_gives_the_same_bytes(tmp_path, tiny_mnist):
    data = tiny_mnist()
    for name in ("one", "two"):
        prepare("mnist", output_dir=tmp_path / name, data_dir=data, options=TRUSTED)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "flags",
    [
        ["--direct_num_workers=2", "--direct_running_mode=multi_threading"],
        ["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
        ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"],
    ],
    ids=["threads", "processes", "portable"],
)
def test_every_runner_gives_the_same_bytes(tmp_path, tiny_mnist, flags, temp_folder):
    data = tiny_mnist()
    for name, chosen in (("one", []), ("other", flags)):
        options = PrepareOptions(trust_files=True, beam_options=chosen)
        prepare("mnist", output_dir=tmp_path / name, data_dir=data, options=options)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other")
    assert list(temp_folder.iterdir()) == []


def test_a_shard_has_its_name_only_when_it_is_complete(tmp_path, tiny_mnist, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RecordFile, "finish", killed)
    shard = Shard("test-00000-of-00001.tfrecord.gz", "test", "t10k", 0, 20)
    folders = {"data_dir": str(tiny_mnist()), "output_dir": str(tmp_path)}
    with pytest.raises(KeyboardInterrupt):
        write_shard(shard, kind=MNIST.format, **folders)
    assert [path.name for path in tmp_path.glob("*test-*")] == [f".{shard.file}.partial"]


def test_a_raw_file_that_has_shrunk_is_an_error(tmp_path, tiny_cifar10):
    folders = {"data_dir": str(tiny_cifar10(num_batch=20)), "output_dir": str(tmp_path)}
    shard = Shard("train-00000-of-00001.tfrecord.gz", "train", "train", 0, 101)
    with pytest.raises(DataError, match=r"101 images were .* train-00000.*, but 100 read"):
        write_shard(shard, kind=CIFAR10.format, **folders)


def test_images_have_a_schema_and_a_report(tmp_path, tiny_cifar10):
    data, output = tiny_cifar10(num_batch=100, num_test=10), tmp_path / "out"
    manifest = prepare("cifar10", output_dir=output, data_dir=data, options=TRUSTED)
    schema = read_schema(output / "schema.pbtxt")
    assert [(f.name, f.type) for f in schema.feature] == [("label", schema_pb2.INT)]
    assert manifest["schema_sha256"] == sha256_of(output / "schema.pbtxt")
    assert manifest["num_errors"] == 0
    assert "label" in (output / "report.html").read_text()


def test_an_earlier_dataset_is_replaced_as_a_whole(tmp_path, tiny_mnist):
    data, output = tiny_mnist(), tmp_path / "out"
    for shards in ({"train": 5}, {"train": 2}):
        prepare(
            "mnist",
            output_dir=output,
            data_dir=data,
            options=PrepareOptions(trust_files=True, num_shards=shards),
        )
    assert len(list(output.glob("train-*"))) == 2


def test_a_limit_takes_the_first_of_each_split(tmp_path, tiny_mnist):
    data = tiny_mnist(num_train=60, num_test=20)
    manifest = prepare(
        "mnist",
        output_dir=tmp_path / "out",
        data_dir=data,
        options=PrepareOptions(trust_files=True, max_examples=16),
    )
    assert read_split(tmp_path / "out", "train") == raw_rows(data, "train", 0, 11)
    assert read_split(tmp_path / "out", "eval") == raw_rows(data, "train", 55, 56)
    assert read_split(tmp_path / "out", "test") == raw_rows(data, "t10k", 0, 4)
    assert "limited to the first of each" in manifest["split_rule"]


@pytest.mark.linux("forks here, in which what a test replaces stays replaced")
def test_a_failure_while_writing_leaves_the_earlier_dataset(tmp_path, tiny_mnist, monkeypatch):
    data, output = tiny_mnist(), tmp_path / "out"
    prepare("mnist", output_dir=output, data_dir=data, options=TRUSTED)
    before = files_of(output)

    def full_disk(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(RecordFile, "write", full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        prepare("mnist", output_dir=output, data_dir=data, options=TRUSTED)
    assert files_of(output) == before
    assert {path.name for path in tmp_path.iterdir()} == {"out", data.name}


def test_an_invalid_raw_file_is_found_before_any_file_is_written(tmp_path, tiny_mnist):
    data = tiny_mnist()
    images = data / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte: has \d+ bytes"):
        prepare("mnist", output_dir=tmp_path / "out", data_dir=data, options=TRUSTED)
    assert not (tmp_path / "out").exists()


def test_a_shard_that_cannot_be_written_is_an_error_that_names_it(tmp_path, tiny_mnist):
    shard = Shard("test-00000-of-00001.tfrecord.gz", "test", "t10k", 0, 1)
    folders = {"data_dir": str(tiny_mnist()), "output_dir": str(tmp_path / "nowhere")}
    with pytest.raises(OSError, match=r"nowhere.*test-00000"):
        write_shard(shard, kind=MNIST.format, **folders)


def test_cifar10_examples_hold_rows_of_pixels_of_three_colours(tmp_path, tiny_cifar10):
    data = tiny_cifar10(num_batch=20, num_test=10)
    prepare("cifar10", output_dir=tmp_path / "out", data_dir=data, options=TRUSTED)
    records = np.fromfile(data / "test_batch.bin", np.uint8).reshape(-1, 3073)
    images, labels = read_split(tmp_path / "out", "test")
    assert labels == records[:, 0].tolist()
    for image, record in zip(images, records, strict=True):
        pixels = np.frombuffer(image, np.uint8).reshape(32, 32, 3)
        assert (pixels.transpose(2, 0, 1) == record[1:].reshape(3, 32, 32)).all()


def test_the_statistics_are_those_of_the_pixels(tmp_path, tiny_cifar10):
    data = tiny_cifar10(num_batch=20, num_test=10)
    prepare("cifar10", output_dir=tmp_path / "out", data_dir=data, options=TRUSTED)
    found = json.loads((tmp_path / "out" / "statistics.json").read_text())["splits"]["test"]
    records = np.fromfile(data / "test_batch.bin", np.uint8).reshape(-1, 3073)
    channels = records[:, 1:].reshape(-1, 3, 1024).transpose(1, 0, 2).reshape(3, -1)
    assert found["pixels"]["mean"] == pytest.approx(channels.mean(axis=1).tolist())
    assert found["pixels"]["std"] == pytest.approx(channels.std(axis=1).tolist())
    assert found["features"]["label"]["top_values"] == [[label, 1] for label in range(10)]


@pytest.mark.parametrize(("num_channels", "num_pixels"), [(1, 1), (1, 784), (3, 1024)])
def test_encoded_images_are_what_tensorflow_itself_writes(tmp_path, num_channels, num_pixels):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(5, num_channels, num_pixels)).astype(np.uint8)
    labels = np.array([0, 1, 9, 10, 127], np.uint8)
    encoder = ImageEncoder(num_channels=num_channels, num_pixels=num_pixels)
    found = b"".join(encoder.encode(images[rows], labels[rows]).tobytes() for rows in PARTS)
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as theirs:
        for image, label in zip(images, labels, strict=True):
            example = tf.train.Example()
            example.features.feature["image"].bytes_list.value.append(image.T.tobytes())
            example.features.feature["label"].int64_list.value.append(int(label))
            theirs.write(example.SerializeToString(deterministic=True))
    assert found == (tmp_path / "theirs").read_bytes()


def test_a_label_of_two_bytes_is_refused():
    with pytest.raises(ValueError, match="below 128, found 128"):
        ImageEncoder(num_channels=1, num_pixels=4).encode(
            np.zeros((1, 1, 4), np.uint8), np.array([128], np.uint8)
        )


@pytest.mark.parametrize("compression", ["GZIP", ""], ids=["gzip", "plain"])
def test_framed_records_are_what_tensorflow_reads_and_sums_to_its_file(tmp_path, compression):
    records = [b"", b"x", b"y" * 127, bytes(range(256)) * 300, b"x"]
    path = tmp_path / "ours"
    with record_file(path, compression=compression) as file:
        file.write(frame_records(pa.array(records[:3], pa.binary())))
        file.write(frame_records(pa.array([], pa.binary())))
        file.write(frame_records(pa.array(records, pa.binary())[3:]))
    found = tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator()
    assert list(found) == records
    assert side_file_entry(path, 3) == {"file": path.name, "num_rows": 3, **file.digests()}
