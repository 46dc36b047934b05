"""Lost processes are started again: real processes, without a service."""

import os
import signal
import time
from pathlib import Path

import pytest

from vertex_local.processes.group import Group
from vertex_local.tests.support.waiting import wait_until

TIMEOUT_SECONDS = 60
WAIT_FOR_FILE = "import pathlib, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.02)"
EXIT_ONCE = """
import pathlib, sys
first = pathlib.Path({!r})
if not first.exists():
    first.touch()
    sys.exit({})
"""


def running(group: Group, name: str, *, restarts: int) -> int:
    """Wait until a process runs after so many restarts; return its pid."""

    def find() -> int:
        replica = group.state()["replicas"][name]
        is_found = replica["state"] == "running" and replica["restarts"] == restarts
        return replica["pid"] if is_found else 0

    return wait_until(find, f"{name} with {restarts} restarts")


def test_a_killed_worker_is_restarted_and_the_others_continue(spec, run, tmp_path: Path):
    end = str(tmp_path / "end")
    waiting = WAIT_FOR_FILE.format(end)
    group = run(spec("chief/0", waiting), spec("worker/0", waiting), max_restarts=2)
    chief = running(group, "chief/0", restarts=0)
    os.kill(running(group, "worker/0", restarts=0), signal.SIGKILL)

    running(group, "worker/0", restarts=1)
    assert running(group, "chief/0", restarts=0) == chief
    Path(end).touch()

    assert group.wait(TIMEOUT_SECONDS)["state"] == "succeeded"


@pytest.mark.parametrize("lost", ["chief/0", "ps/0", "worker/0"])
def test_the_whole_group_is_restarted(spec, run, tmp_path: Path, lost):
    end = str(tmp_path / "end")
    names = ("chief/0", "worker/0", "ps/0")
    group = run(
        *[spec(name, WAIT_FOR_FILE.format(end)) for name in names],
        max_restarts=1,
        restarts_whole_group=lost == "worker/0",
    )
    before = {name: running(group, name, restarts=0) for name in names}
    os.kill(before[lost], signal.SIGKILL)

    after = {name: running(group, name, restarts=1) for name in names}
    assert not set(before.values()) & set(after.values())
    Path(end).touch()

    assert group.wait(TIMEOUT_SECONDS)["state"] == "succeeded"


def test_a_process_that_exits_with_143_is_restarted(spec, run, tmp_path: Path):
    script = EXIT_ONCE.format(str(tmp_path / "first"), 143)

    state = run(spec("chief/0", script), max_restarts=1).wait(TIMEOUT_SECONDS)

    assert state["state"] == "succeeded"
    assert state["replicas"]["chief/0"]["restarts"] == 1


def test_a_process_that_fails_with_an_error_is_not_restarted(spec, run, tmp_path: Path):
    script = EXIT_ONCE.format(str(tmp_path / "first"), 1)

    state = run(spec("chief/0", script), max_restarts=3).wait(TIMEOUT_SECONDS)

    assert state["state"] == "failed"
    assert state["replicas"]["chief/0"]["restarts"] == 0


def test_restarts_are_limited_and_counted_in_the_message(spec, run):
    state = run(spec("chief/0", "import sys; sys.exit(143)"), max_restarts=2).wait(TIMEOUT_SECONDS)

    assert state["state"] == "failed"
    assert "chief/0 exited with code 143 after 2 restarts" in state["message"]


def test_a_stop_before_a_planned_restart_ends_the_group(spec, run):
    group = run(spec("chief/0", "import sys; sys.exit(143)"), max_restarts=30)
    wait_until(lambda: group.state()["replicas"]["chief/0"]["restarts"] == 2, "the second restart")

    began = time.monotonic()
    state = group.stop(60)

    assert state["state"] == "cancelled"
    assert time.monotonic() - began < 30
