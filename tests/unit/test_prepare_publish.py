import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.prepare_examples.publish import published


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    return process.pid


def leave(output: Path, pid: int) -> Path:
    folder = output.with_name(f".{output.name}.{pid}.partial")
    folder.mkdir()
    (folder / ".train-00000-of-00001.tfrecord.partial").write_bytes(b"x")
    return folder


def test_what_killed_runs_left_is_removed(tmp_path, dead_pid):
    output = tmp_path / "o[u]t"
    leave(output, dead_pid)
    leave(output, os.getpid())
    with published(output) as folder:
        (folder / "manifest.json").write_text("{}")
    assert [path.name for path in tmp_path.iterdir()] == ["o[u]t"]
    assert [path.name for path in output.iterdir()] == ["manifest.json"]


def test_what_is_of_running_processes_or_of_other_places_is_kept(tmp_path, dead_pid):
    output = tmp_path / "out"
    kept = {
        leave(output, os.getppid()),
        leave(tmp_path / "out.old", dead_pid),
        leave(tmp_path / "other", dead_pid),
    }
    with published(output):
        pass
    assert set(tmp_path.iterdir()) == {output, *kept}
