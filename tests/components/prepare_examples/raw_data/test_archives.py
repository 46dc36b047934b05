"""Archives of class folders: unpacked once, and never outside the cache."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data import archives
from components.prepare_examples.raw_data.archives import unpack
from tests.support.data.archives import tar_of

pytestmark = pytest.mark.fast

FILES = {"flowers/rose/1.png": b"red", "flowers/tulip/2.png": b"yellow"}
HIDDEN = {"__MACOSX/flowers/rose/._1.png": b"x", "flowers/rose/.DS_Store": b"x"}


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def write_tar(path: Path, files: dict[str, bytes], *links: tuple[str, str, bytes]) -> Path:
    path.write_bytes(tar_of(files, *links, kind="gz" if path.name.endswith("gz") else ""))
    return path


def found(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("name", "write"), [("a.zip", write_zip), ("a.tar", write_tar), ("a.tgz", write_tar)]
)
def test_an_archive_is_unpacked_once_without_what_a_system_has_added(tmp_path, name, write):
    archive = write(tmp_path / name, FILES | HIDDEN)
    folder = unpack(archive, tmp_path / "cache")
    assert found(folder) == {"rose/1.png": b"red", "tulip/2.png": b"yellow"}
    (folder / "mark").touch()
    assert unpack(archive, tmp_path / "cache") == folder
    assert (folder / "mark").exists()
    other = write(tmp_path / name, {**FILES, "flowers/rose/3.png": b"pink"})
    assert unpack(other, tmp_path / "cache") != folder
    assert not list((tmp_path / "cache/.unpacked").glob(".*"))


@pytest.mark.parametrize(("name", "write"), [("a.zip", write_zip), ("a.tgz", write_tar)])
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path, monkeypatch, name, write
):
    monkeypatch.setattr(archives, "SMALL_BYTES", 1000)
    path = write(tmp_path / name, {"flowers/rose/1.png": bytes(5_000_000)})
    with pytest.raises(DataError, match=r"100 times as much.*unpack it yourself.*prepare.files"):
        unpack(path, tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.png"))


@pytest.mark.parametrize("evil", ["../evil", "a/../../evil", "/tmp/evil", "..\\evil", "C:\\evil"])
@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_a_path_out_of_the_folder_is_refused(tmp_path, write, evil):
    archive = write(tmp_path / "cache.zip", {"a/1.png": b"x", evil: b"x"})
    with pytest.raises(DataError, match="leads out of its folder"):
        unpack(archive, tmp_path / "cache")
    assert found(tmp_path / "cache") == {}
    assert not (tmp_path / "evil").exists()


def test_symbolic_links_are_left_out_and_hard_links_are_copies(tmp_path):
    links = [
        ("flowers/rose/out", "/etc/hostname", tarfile.SYMTYPE),
        ("flowers/rose/copy.png", "flowers/rose/1.png", tarfile.LNKTYPE),
    ]
    folder = unpack(write_tar(tmp_path / "a.tar", FILES, *links), tmp_path)
    assert found(folder)["rose/copy.png"] == b"red"
    assert not (folder / "rose/out").is_symlink()
    assert "rose/out" not in found(folder)


def test_a_damaged_archive_is_named(tmp_path):
    whole = tar_of({"a/1.png": bytes(100_000)})
    for name, data in {
        "text.zip": b"no archive",
        "short.tgz": whole[: len(whole) // 2],
        "lost.tar": tar_of({}, ("a/1.png", "b/2.png", tarfile.LNKTYPE), kind=""),
        "empty.zip": write_zip(tmp_path / "e.zip", {}).read_bytes(),
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=f"{name} (is not a complete archive|has no files)"):
            unpack(tmp_path / name, tmp_path / "cache")
