"""Artifact folders: which are accepted, and that a failed copy leaves nothing."""

import errno
import shutil

import pytest

from vertex_local.errors import ApiError, of_exception
from vertex_local.models import artifacts

pytestmark = pytest.mark.fast


@pytest.fixture
def source(tmp_path):
    source = tmp_path / "my model"
    (source / "variables").mkdir(parents=True)
    (source / "saved_model.pb").write_text("graph")
    (source / "variables" / "data").write_text("weights")
    return source


def test_paths_and_file_uris_name_folders(tmp_path, source):
    root = tmp_path / "root"
    for uri in (str(source), source.as_uri(), f"file://localhost{source.as_uri()[7:]}"):
        assert artifacts.local_folder(uri, root=root) == source


@pytest.mark.parametrize(
    "uri", ["gs://b/m", "https://h/m", "m", "./m", "file://other/m", "s3://b", "file:m"]
)
def test_other_uris_are_refused(tmp_path, uri):
    with pytest.raises(ApiError, match="not on this machine"):
        artifacts.local_folder(uri, root=tmp_path)


def test_missing_folder_file_and_own_root_are_refused(tmp_path, source):
    with pytest.raises(ApiError, match="does not exist"):
        artifacts.local_folder(str(tmp_path / "nothing"), root=tmp_path / "root")
    with pytest.raises(ApiError, match="is not a folder"):
        artifacts.local_folder(str(source / "saved_model.pb"), root=tmp_path / "root")
    with pytest.raises(ApiError, match="own root"):
        artifacts.local_folder(str(tmp_path), root=tmp_path / "root")


def test_the_copy_is_moved_to_its_folder_when_complete(tmp_path, source):
    copy = artifacts.copy_in(source, root=tmp_path / "root", key="7")
    target = tmp_path / "root" / "models" / "5" / "1"
    target.mkdir(parents=True)
    (target / "left by an interrupted upload").write_text("")
    artifacts.place(copy, target)
    assert not copy.exists()
    found = sorted(str(p.relative_to(target)) for p in target.rglob("*"))
    assert found == ["saved_model.pb", "variables", "variables/data"]


def test_full_disk_while_copying_leaves_nothing_and_is_resource_exhausted(
    tmp_path, source, monkeypatch
):
    def full(path, target):
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(OSError, match="No space left") as error:
        artifacts.copy_in(source, root=tmp_path / "root", key="7")
    assert of_exception(error.value).status == "RESOURCE_EXHAUSTED"
    assert not (tmp_path / "root" / "models" / ".incoming" / "7").exists()


def test_clean_removes_incomplete_copies_and_keeps_unknown_versions_aside(tmp_path):
    models = tmp_path / "models"
    for path in ("5/1", "5/2", "6/1", ".incoming/9"):
        (models / path).mkdir(parents=True)
        (models / path / "saved_model.pb").touch()
    artifacts.clean(tmp_path, {models / "5" / "1"})
    assert sorted(str(p.relative_to(models)) for p in models.glob("*/*")) == ["5/1"]
    assert not (models / "6").exists()
    kept = tmp_path / "lost+found" / "models"
    assert sorted(str(p.relative_to(kept)) for p in kept.glob("*/*")) == ["5/2", "6/1"]
