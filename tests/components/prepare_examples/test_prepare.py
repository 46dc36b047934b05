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
from components.prepare_examples.images.shards import RawImages, write_shard
from components.prepare_examples.prepare import prepare
from components.prepare_examples.raw_data.files import sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.statistics.schema import read_schema
from components.prepare_examples.tfrecords.image_encoder import encode_images
from components.prepare_examples.tfrecords.records import RecordFile, record_file
from components.prepare_examples.tfrecords.shards import Shard
from components.prepare_examples.tfrecords.table_encoder import frame_records
from tests.support.data.examples import make_example
from tests.support.data.prepared import Prepared, files_of
from trainer.workloads.data_sets import CIFAR10, MNIST

TRUSTED = PrepareOptions(trust_files=True)
PARTS = (slice(0, 3), slice(3, 5))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid connections: Beam must not look for a runner, and no file be fetched."""

    def refuse(*arguments):
        raise AssertionError(f"connects to {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def pixels_of(found: Prepared, split: str) -> tuple[list[bytes], list[int]]:
    return found.values("image", split), found.values("label", split)


def raw_rows(folder: Path, part: str, start: int, stop: int) -> tuple[list[bytes], list[int]]:
    images = (folder / f"{part}-images-idx3-ubyte").read_bytes()[16:]
    labels = (folder / f"{part}-labels-idx1-ubyte").read_bytes()[8:]
    pixels = [images[row * 784 : (row + 1) * 784] for row in range(start, stop)]
    return pixels, list(labels[start:stop])


@pytest.mark.parametrize(("max_examples", "counts"), [(0, [55, 5, 20]), (16, [11, 1, 4])])
def test_every_example_is_written_once_in_the_given_order(
    tmp_path, tiny_mnist, max_examples, counts
):
    data, output = tiny_mnist(num_train=60, num_test=20), tmp_path / "out"
    options = PrepareOptions(trust_files=True, max_examples=max_examples)
    manifest = prepare("mnist", output_dir=output, data_dir=data, options=options)
    found = Prepared(output, manifest)
    assert found.counts == counts
    assert ("limited to the first of each" in manifest["split_rule"]) == bool(max_examples)
    train, eval_, test = counts
    assert pixels_of(found, "train") == raw_rows(data, "train", 0, train)
    assert pixels_of(found, "eval") == raw_rows(data, "train", 55, 55 + eval_)
    assert pixels_of(found, "test") == raw_rows(data, "t10k", 0, test)
    assert manifest == json.loads((output / "manifest.json").read_text())
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    others = {"manifest.json", "statistics.json", "schema.pbtxt", "anomalies.json", "report.html"}
    assert {shard["file"] for shard in shards} | others == set(files_of(output))
    for shard in shards:
        content = found.shards[shard["file"]]
        assert hashlib.sha256(content).hexdigest() == shard["sha256"]
        crc32c = google_crc32c.value(content).to_bytes(4, "big")
        assert base64.b64decode(shard["crc32c"]) == crc32c
    assert [source["verified"] for source in manifest["sources"]] == [False] * 4
    assert manifest["compression"] == "GZIP"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--direct_num_workers=2", "--direct_running_mode=multi_threading"),
        ("--direct_num_workers=2", "--direct_running_mode=multi_processing"),
        ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
    ],
    ids=["default", "threads", "processes", "portable"],
)
def test_every_runner_gives_the_same_bytes(tmp_path, run, tiny_mnist, flags, temp_folder):
    data, output = tiny_mnist(), tmp_path / "out"
    options = PrepareOptions(trust_files=True, beam_options=flags)
    prepare("mnist", output_dir=output, data_dir=data, options=options)
    without_beam = run("mnist", data_dir=data, trust_files=True, num_shards={})
    assert files_of(without_beam.folder) == files_of(output)
    assert list(temp_folder.iterdir()) == []


def test_a_shard_that_cannot_be_written_is_named_and_never_looks_complete(
    tmp_path, tiny_mnist, tiny_cifar10, monkeypatch
):
    def killed(*_):
        raise KeyboardInterrupt

    many = Shard("train-00000-of-00001.tfrecord.gz", "train", "train", 0, 101)
    photographs = RawImages(CIFAR10.format, str(tiny_cifar10(num_batch=20)))
    with pytest.raises(DataError, match=r"101 images were .* train-00000.*, but 100 read"):
        write_shard((many, 0), images=photographs, output_dir=str(tmp_path))
    shard = Shard("test-00000-of-00001.tfrecord.gz", "test", "test", 0, 20)
    digits = RawImages(MNIST.format, str(tiny_mnist()))
    with pytest.raises(OSError, match=r"nowhere.*test-00000"):
        write_shard((shard, 0), images=digits, output_dir=str(tmp_path / "nowhere"))
    monkeypatch.setattr(RecordFile, "finish", killed)
    with pytest.raises(KeyboardInterrupt):
        write_shard((shard, 0), images=digits, output_dir=str(tmp_path))
    assert [path.name for path in tmp_path.glob("*test-*")] == [f".{shard.file}.partial"]


@pytest.mark.linux("forks here, in which what a test replaces stays replaced")
def test_an_earlier_dataset_is_replaced_as_a_whole_or_not_at_all(tmp_path, tiny_mnist, monkeypatch):
    data, output = tiny_mnist(), tmp_path / "out"
    for count in (5, 2):
        options = PrepareOptions(trust_files=True, num_shards={"train": count})
        prepare("mnist", output_dir=output, data_dir=data, options=options)
        assert len(list(output.glob("train-*"))) == count
    before = files_of(output)

    def full_disk(*_, **__):
        raise OSError("No space left on device")

    images = data / "train-images-idx3-ubyte"
    content = images.read_bytes()
    images.write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte: has \d+ bytes"):
        prepare("mnist", output_dir=output, data_dir=data, options=TRUSTED)
    images.write_bytes(content)
    monkeypatch.setattr(RecordFile, "write", full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        prepare("mnist", output_dir=output, data_dir=data, options=TRUSTED)
    assert files_of(output) == before
    assert {path.name for path in tmp_path.iterdir()} == {"out", data.name}


def test_cifar10_examples_hold_rows_of_pixels_of_three_colours(run, tiny_cifar10):
    data = tiny_cifar10(num_batch=100, num_test=10)
    found = run("cifar10", data_dir=data, trust_files=True)
    records = np.fromfile(data / "test_batch.bin", np.uint8).reshape(-1, 3073)
    images, labels = pixels_of(found, "test")
    assert labels == records[:, 0].tolist()
    colours = records[:, 1:].reshape(-1, 3, 32, 32)
    for image, expected in zip(images, colours, strict=True):
        pixels = np.frombuffer(image, np.uint8).reshape(32, 32, 3)
        assert (pixels.transpose(2, 0, 1) == expected).all()

    statistics = found.statistics("test")
    assert statistics["pixels"]["mean"] == pytest.approx(colours.mean((0, 2, 3)).tolist())
    assert statistics["pixels"]["std"] == pytest.approx(colours.std((0, 2, 3)).tolist())
    assert statistics["features"]["label"]["top_values"] == [[label, 1] for label in range(10)]
    schema = read_schema(found.folder / "schema.pbtxt")
    assert [(f.name, f.type) for f in schema.feature] == [("label", schema_pb2.INT)]
    assert found.manifest["schema_sha256"] == sha256_of(found.folder / "schema.pbtxt")
    assert found.manifest["num_errors"] == 0
    assert "label" in found.report


@pytest.mark.parametrize(("num_channels", "num_pixels"), [(1, 1), (1, 784), (3, 1024)])
def test_encoded_images_are_what_tensorflow_itself_writes(tmp_path, num_channels, num_pixels):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(5, num_channels, num_pixels)).astype(np.uint8)
    labels = np.array([0, 1, 9, 10, 127], np.uint8)
    found = b"".join(encode_images(images[rows], labels[rows]).tobytes() for rows in PARTS)
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as theirs:
        for image, label in zip(images, labels, strict=True):
            theirs.write(make_example({"image": image.T.tobytes(), "label": int(label)}))
    assert found == (tmp_path / "theirs").read_bytes()


@pytest.mark.parametrize("compression", ["GZIP", ""])
def test_framed_records_are_what_tensorflow_reads_and_sums_to_its_file(tmp_path, compression):
    records = [b"", b"x", b"y" * 127, bytes(range(256)) * 300, b"x"]
    path = tmp_path / "ours"
    with record_file(path, compression=compression) as file:
        file.write(frame_records(pa.array(records[:3], pa.binary())))
        file.write(frame_records(pa.array([], pa.binary())))
        file.write(frame_records(pa.array(records, pa.binary())[3:]))
    found = tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator()
    assert list(found) == records
    assert file.digests()["sha256"] == sha256_of(path)
