"""`trainyard check` of a workload that never ends: its time limit, and what an end leaves."""

import signal
import subprocess
import sys
import tempfile

import pytest

from pipelines.cli import main
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.signals import WITH_DEFAULT_SIGINT
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

HANGS = """\
import os, time

def wait():
    with open("begun", "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.sleep(0.01)

wait()
"""


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A workload that never ends, and a folder for temporary files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "workload.py").write_text(HANGS.replace("begun", str(tmp_path / "begun")))
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_loop_is_ended_at_the_time_limit_and_its_line_is_named(hanging, capsys):
    assert main(["check", "own", "--timeout", "30"]) == 124
    output = capsys.readouterr().out
    assert "own/workload.py:7: wait was still running 30 s after its start; give it" in output
    assert "no mistake so far in own" in output
    pid = int((hanging / "begun").read_text())
    assert not is_running(pid)
    assert list((hanging / "temp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_check_that_is_ended_leaves_no_process_and_no_files(hanging, number):
    command = [*WITH_DEFAULT_SIGINT, sys.executable, "-m", "pipelines.cli", "check", "own"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        begun = hanging / "begun"
        wait_until(lambda: begun.exists() and begun.read_text(), "the loop", timeout_seconds=60)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    pid = int(begun.read_text())
    wait_until(lambda: not is_running(pid), "the end of the child", timeout_seconds=20)
    if number != signal.SIGKILL:
        assert (process.returncode, errors) == (130, b"")
        assert list((hanging / "temp").iterdir()) == []
