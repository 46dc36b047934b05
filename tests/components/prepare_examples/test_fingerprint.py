import datetime
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.api_core.exceptions import Forbidden

from components.prepare_examples.errors import DataError
from components.prepare_examples.fingerprint import check_unchanged, read_input
from components.prepare_examples.raw_data import files
from components.prepare_examples.raw_data.files import DIGESTS_FILE
from components.prepare_examples.settings.options import PrepareOptions
from trainer import paths

pytestmark = pytest.mark.fast


def fingerprint(workload: str, data_dir: Path | str = "", **options) -> str:
    return read_input(workload, data_dir=data_dir, options=PrepareOptions(**options)).fingerprint


@pytest.fixture
def folder(tmp_path):
    """Two tables, and a folder for the cache of their digests."""
    (tmp_path / "x").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "x" / name).write_text(f"{name}\n")
    return tmp_path / "x"


def taxi(folder, **options):
    return fingerprint("taxi", folder.parent / "cache", **{"files": f"{folder}/*.csv", **options})


def rewrite(folder):
    (folder / "b.csv").write_text("B.csv\n")


def rewrite_keeping_the_time(folder):
    before = (folder / "b.csv").stat()
    rewrite(folder)
    os.utime(folder / "b.csv", ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "b.csv").unlink(),
        lambda folder: (folder / "c.csv").write_text("c\n"),
        lambda folder: (folder / "b.csv").rename(folder / "d.csv"),
        rewrite,
        rewrite_keeping_the_time,
    ],
    ids=["removed", "added", "renamed", "rewritten", "rewritten-with-its-old-time"],
)
@pytest.mark.parametrize("is_settled", [True, False])
def test_any_change_of_the_files_changes_the_fingerprint(folder, monkeypatch, change, is_settled):
    if is_settled:
        monkeypatch.setattr(files, "SETTLED_NS", -(10**12))
    before = taxi(folder)
    assert taxi(folder) == before
    change(folder)
    assert taxi(folder) != before


def test_an_unchanged_file_is_read_once(folder, monkeypatch):
    monkeypatch.setattr(files, "SETTLED_NS", -(10**12))
    read = []
    digest = files.sha256_of
    monkeypatch.setattr(files, "sha256_of", lambda path: read.append(path.name) or digest(path))
    before = taxi(folder)
    assert sorted(read) == ["a.csv", "b.csv"]
    assert taxi(folder) == before
    assert len(read) == 2
    os.utime(folder / "a.csv")
    assert taxi(folder) == before
    assert read[2:] == ["a.csv"]
    memory = folder.parent / "cache" / DIGESTS_FILE
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600
    (folder / "a.csv").unlink()
    taxi(folder, files=f"{folder}/b.csv")
    os.utime(folder / "b.csv")
    taxi(folder)
    assert list(json.loads(memory.read_text())) == [str(folder / "b.csv")]


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}', '{"a": [[1], 2, 3]}'])
def test_a_damaged_cache_of_digests_is_ignored(folder, content):
    before = taxi(folder)
    cache = folder.parent / "cache"
    assert json.loads((cache / DIGESTS_FILE).read_text()) == {}, "a file has just changed"
    (cache / DIGESTS_FILE).write_text(content)
    assert taxi(folder) == before
    (cache / DIGESTS_FILE).unlink()
    cache.rmdir()
    cache.write_text("a file in the place of the folder")
    assert taxi(folder) == before


def test_a_pattern_that_matches_nothing_is_named(folder):
    with pytest.raises(DataError, match=r"/x/\*\.parquet"):
        taxi(folder, files=f"{folder}/a.csv,{folder}/*.parquet")


@pytest.mark.parametrize("name", ["schema", "baseline"])
def test_schema_and_baseline_change_the_fingerprint(folder, name):
    path = folder / "given [1]"
    path.write_text("{}")
    before = taxi(folder, **{name: str(path)})
    assert before != taxi(folder)
    path.write_text("{ }")
    assert taxi(folder, **{name: str(path)}) != before
    path.unlink()
    with pytest.raises(DataError, match="matches no file"):
        taxi(folder, **{name: str(path)})
    if name == "baseline":
        (folder / "statistics.json").write_text("{}")
        before = taxi(folder, baseline=str(folder))
        (folder / "statistics.json").write_text("{ }")
        assert taxi(folder, baseline=str(folder)) != before


def test_a_workloads_own_files_are_known_by_their_pinned_digests(tmp_path):
    assert fingerprint("mnist", tmp_path) == fingerprint("mnist", "/elsewhere")
    assert fingerprint("mnist") != fingerprint("cifar10")
    assert list(tmp_path.iterdir()) == []


def test_trusted_files_change_the_fingerprint(tiny_mnist):
    data_dir = tiny_mnist()
    before = fingerprint("mnist", data_dir, trust_files=True)
    labels = data_dir / "train-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1] + b"\x07")
    assert fingerprint("mnist", data_dir, trust_files=True) != before
    labels.unlink()
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte is missing"):
        fingerprint("mnist", data_dir, trust_files=True)


def test_a_change_of_bigquerys_table_changes_the_fingerprint(big_query):
    client = big_query()
    options = {"source": "bigquery", "project": "p", "limit": 5}
    before = fingerprint("taxi", **options)
    assert fingerprint("taxi", **options) == before
    client.modified += datetime.timedelta(milliseconds=1)
    assert fingerprint("taxi", **options) != before


class FakeStorage:
    """Fake client for the objects of one bucket: (size, generation) by name."""

    def __init__(self, objects):
        self.objects, self.error = objects, None

    def list_blobs(self, bucket, *, prefix):
        assert bucket == "b"
        if self.error:
            raise self.error
        return [
            SimpleNamespace(name=name, size=size, generation=generation)
            for name, (size, generation) in self.objects.items()
            if name.startswith(prefix)
        ]


@pytest.fixture
def storage(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "CLOUD_MOUNT", f"{tmp_path}/")
    fake = FakeStorage({"d/": (0, 1), "d/a.csv": (5, 1), "d/e/b.csv": (5, 1), "d/a.txt": (5, 1)})
    monkeypatch.setattr(files, "connect", lambda: fake)
    return fake


def in_bucket(pattern):
    return fingerprint("taxi", "gs://b/cache", files=pattern)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        *((f"gs://b/d/{name}", "d/a.csv") for name in ("*.csv", "**/*.csv", "a.csv")),
        *((f"gs://b/{name}", "d/e/b.csv") for name in ("d", "d/", "*/e")),
    ],
)
def test_the_generations_of_objects_change_the_fingerprint(storage, pattern, name):
    before = in_bucket(pattern)
    if pattern.endswith("csv"):
        storage.objects["d/a.txt"] = (6, 2)
    assert in_bucket(pattern) == before
    storage.objects[name] = (5, 2)
    assert in_bucket(pattern) != before


def test_a_pattern_of_a_bucket_that_matches_nothing_is_named(storage):
    with pytest.raises(DataError, match=r"gs://b/d/\*\.parquet"):
        in_bucket("gs://b/d/*.parquet")


def test_an_error_of_cloud_storage_says_what_to_do(storage):
    storage.error = Forbidden("no access")
    with pytest.raises(OSError, match=r"gs://b/d/a\.csv: 403 no access; .*bucket.*objectViewer"):
        in_bucket("gs://b/d/a.csv")


def test_input_that_changes_during_the_step_is_refused(folder):
    options = PrepareOptions(files=f"{folder}/*.csv")
    before = taxi(folder)
    check_unchanged(before, "taxi", data_dir=folder.parent / "cache", options=options)
    rewrite(folder)
    with pytest.raises(DataError, match=r"input changed.*run again"):
        check_unchanged(before, "taxi", data_dir=folder.parent / "cache", options=options)
