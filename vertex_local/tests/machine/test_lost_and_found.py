"""Folders without a record: removed if the service did not finish with them, else kept aside."""

import pytest

from vertex_local.machine import lost_and_found

pytestmark = pytest.mark.fast


class Killed(BaseException):
    """Simulated end of the process."""


@pytest.fixture
def stray(tmp_path):
    stray = tmp_path / "models" / "5" / "1"
    (stray / "variables").mkdir(parents=True)
    (stray / "saved_model.pb").write_text("graph")
    return stray


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_folder_without_a_record_is_kept_aside_each_time_under_another_name(tmp_path, stray):
    for number in (1, 2):
        stray.mkdir(parents=True, exist_ok=True)
        (stray / "saved_model.pb").write_text(f"graph {number}")
        lost_and_found.clear(tmp_path, [stray])
        assert not (tmp_path / "models" / "5").exists()
    kept = tmp_path / "lost+found" / "models" / "5"
    assert names(kept) == ["1/saved_model.pb", "1~2/saved_model.pb"]
    assert (kept / "1~2" / "saved_model.pb").read_text() == "graph 2"
    notes = lost_and_found.notes(tmp_path)
    assert [note.partition(" ")[2] for note in notes] == [
        f"models/5/1 has no record; it is kept as {kept / '1'}",
        f"models/5/1 has no record; it is kept as {kept / '1~2'}",
    ]


def test_a_folder_without_files_is_removed(tmp_path, stray):
    (stray / "saved_model.pb").unlink()
    lost_and_found.clear(tmp_path, [stray, tmp_path / "models" / "missing"])
    assert list(tmp_path.iterdir()) == [tmp_path / "models"]
    assert lost_and_found.notes(tmp_path) == []


@pytest.mark.parametrize("marked", ["models/5/1", "models/5"])
def test_the_next_start_completes_a_deletion(tmp_path, stray, monkeypatch, marked):
    with monkeypatch.context() as patch:
        patch.setattr(lost_and_found, "discard", lambda folder: None)  # killed before
        with lost_and_found.deletion(tmp_path, tmp_path / marked):
            pass
    lost_and_found.clear(tmp_path, [stray])
    lost_and_found.forget_marks(tmp_path)
    assert names(tmp_path) == []


def test_the_next_start_removes_what_an_interrupted_creation_left(tmp_path, stray, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda *_, **__: None)  # killed before
        with lost_and_found.creation(tmp_path, stray):
            pass
    lost_and_found.clear(tmp_path, [stray])
    assert not stray.exists()
    assert lost_and_found.notes(tmp_path) == []


@pytest.mark.parametrize("change", [lost_and_found.creation, lost_and_found.deletion])
def test_a_folder_whose_change_has_ended_is_not_marked(tmp_path, stray, change):
    with pytest.raises(Killed), change(tmp_path, stray):
        raise Killed
    assert stray.exists()
    lost_and_found.clear(tmp_path, [stray])
    assert names(tmp_path / "lost+found") == ["NOTES.txt", "models/5/1/saved_model.pb"]


def test_a_deletion_needs_no_space(tmp_path, stray, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.touch", full)
    with lost_and_found.deletion(tmp_path, stray):
        pass
    assert not stray.exists()
