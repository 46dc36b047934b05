import os

import pytest

from vertex_local.machine import watched_files
from vertex_local.machine.watched_files import WatchedFiles

pytestmark = pytest.mark.fast


def write(path):
    path.write_text("other")


def replace(path):
    new = path.with_suffix(".new")
    new.write_text("other")
    new.replace(path)


def touch(path):
    os.utime(path, (1, 1))


def rename_folder(path):
    path.parent.rename(path.parent.with_name("moved"))


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / "one" / "a.py", tmp_path / "two" / "b.py"]
    for path in found:
        path.parent.mkdir()
        path.write_text("text")
    return found


@pytest.fixture
def compared(monkeypatch):
    """Count the files that are compared."""
    seen = []
    signature = watched_files._signature

    def count(path):
        seen.append(path)
        return signature(path)

    monkeypatch.setattr(watched_files, "_signature", count)
    return seen


@pytest.mark.parametrize("change", [write, replace, touch, os.remove, rename_folder])
@pytest.mark.parametrize("has_symlink", [False, True], ids=["watched", "compared"])
def test_a_change_is_seen_at_once(paths, tmp_path, change, has_symlink):
    link = tmp_path / "link.py"
    link.symlink_to(paths[1])
    files = WatchedFiles(map(str, [*paths, link] if has_symlink else paths))
    assert files.is_watched is not has_symlink
    assert files.are_unchanged()
    change(paths[1])
    assert not files.are_unchanged()
    assert not files.are_unchanged(), "the change is still there"


def test_files_are_compared_only_after_a_report(paths, compared):
    files = WatchedFiles(map(str, paths))
    compared.clear()
    assert all(files.are_unchanged() for _ in range(10))
    assert compared == []
    (paths[0].parent / "other.txt").write_text("no module")
    assert files.are_unchanged()
    assert len(compared) == len(paths)


def test_files_are_compared_at_times_without_a_report(paths, compared, monkeypatch):
    files = WatchedFiles(map(str, paths))
    compared.clear()
    monkeypatch.setattr(watched_files, "COMPARE_SECONDS", 0.0)
    assert files.are_unchanged()
    assert len(compared) == len(paths)


def test_files_are_compared_where_the_system_allows_no_watch(paths):
    gone = paths[0].parent / "gone" / "c.py"
    files = WatchedFiles([*map(str, paths), str(gone)])
    assert not files.is_watched
    write(paths[0])
    assert not files.are_unchanged()
