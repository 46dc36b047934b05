"""`trainyard check` of a workload that never ends: its time limit, and what an end leaves."""

import signal
import tempfile

import pytest

from pipelines.cli import main
from pipelines.projects.user_code import UserProcess
from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import forks_with
from vertex_local.tests.support.seen import is_running
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
def begun(tmp_path, monkeypatch):
    """Write a workload that never ends; return the file in which it writes its pid."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "workload.py").write_text(HANGS.replace("begun", str(tmp_path / "begun")))
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / "begun"


def await_loop(begun):
    wait_until(lambda: begun.exists() and begun.read_text(), "the loop", timeout_seconds=90)


def test_a_loop_is_ended_at_the_time_limit_and_its_line_is_named(begun, capsys, monkeypatch):
    next_line = UserProcess.next_line

    def next_line_of_loop(self, timeout_seconds):
        assert timeout_seconds == 30
        await_loop(begun)
        return next_line(self, 0.1)

    monkeypatch.setattr(UserProcess, "next_line", next_line_of_loop)
    assert main(["check", "own", "--timeout", "30"]) == 124
    output = capsys.readouterr().out
    assert "own/workload.py:7: wait was still running 30 s after its start; give it" in output
    assert "no mistake so far in own" in output
    assert not is_running(int(begun.read_text()))
    assert list((begun.parent / "temp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_check_that_is_ended_leaves_no_process_and_no_files(begun, tmp_path, number):
    words = ["python", "-m", "pipelines.cli", "check", "own"]
    process = forks_with(*EVERYTHING).start(words, log_path=tmp_path / "log")
    await_loop(begun)
    process.send_signal(number)
    code = process.wait(60)
    pid = int(begun.read_text())
    wait_until(lambda: not is_running(pid), "the end of the child", timeout_seconds=20)
    if number != signal.SIGKILL:
        assert (code, "Traceback" in process.output) == (130, False)
        assert list((tmp_path / "temp").iterdir()) == []
