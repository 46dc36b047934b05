import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.prepare_examples.output.publish import LOCK, published

pytestmark = pytest.mark.fast


def leave(output: Path, name: str) -> Path:
    """Create the folder that a killed run leaves."""
    folder = output.with_name(f".{output.name}.{name}.partial")
    folder.mkdir()
    (folder / ".train-00000-of-00001.tfrecord.partial").write_bytes(b"x")
    (folder / LOCK).touch()
    return folder


@pytest.fixture
def of_running(tmp_path: Path) -> Iterator[Path]:
    """Create the folder to which another run writes."""
    folder = leave(tmp_path / "out", "0a1b2c3d")
    with (folder / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def test_folders_of_killed_runs_are_removed(tmp_path):
    output = tmp_path / "o[u]t"
    leave(output, "4d3c2b1a")
    (leave(output, "1234") / LOCK).unlink()
    with published(output) as folder:
        (folder / "manifest.json").write_text("{}")
    assert [path.name for path in tmp_path.iterdir()] == ["o[u]t"]
    assert [path.name for path in output.iterdir()] == ["manifest.json"]


def test_folders_of_running_processes_and_other_outputs_are_kept(tmp_path, of_running):
    output = tmp_path / "out"
    kept = {of_running, leave(tmp_path / "out.old", "1"), leave(tmp_path / "other", "1")}
    with published(output):
        pass
    assert set(tmp_path.iterdir()) == {output, *kept}


def test_a_run_keeps_its_folder_while_another_looks_for_leftovers(tmp_path):
    output = tmp_path / "out"
    with published(output) as first:
        with published(output) as second:
            (second / "manifest.json").write_text("2")
        assert first.is_dir()
        (first / "manifest.json").write_text("1")
    assert (output / "manifest.json").read_text() == "1"
