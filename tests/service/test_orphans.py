"""What a group leaves behind when its supervisor is killed, and cores that replicas are tied to."""

import os
import signal
import sys
import time

import psutil
import pytest

from vertex_local import processes
from vertex_local.processes import ProcessSpec

pytestmark = pytest.mark.timeout(60)

GRANDCHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path):
    """Starts a group of one process; answers the group and its log."""
    groups = []

    def start_group(code, **options):
        log = tmp_path / "replica.log"
        spec = ProcessSpec(
            name="chief/0",
            command=[sys.executable, "-c", code],
            env={},
            cwd=str(tmp_path),
            log_path=log,
            **options,
        )
        groups.append(processes.start(tmp_path / "group", [spec], timeout_seconds=30))
        return groups[-1], log

    yield start_group
    for group in groups:
        group.stop(grace_seconds=0)


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited 20 s"
        time.sleep(0.02)
    return found


def test_grandchildren_do_not_survive_a_killed_supervisor(start):
    group, log = start(GRANDCHILD)
    wait_for(lambda: log.is_file() and log.read_text().endswith("\n"))
    grandchild = int(log.read_text())
    os.kill(group.pid, signal.SIGKILL)

    assert group.wait(20)["state"] == "failed"
    assert not psutil.pid_exists(grandchild)


def test_a_replica_runs_on_its_cores_only(start):
    core = max(os.sched_getaffinity(0))
    group, log = start("import os; print(*os.sched_getaffinity(0))", cores=(core,))

    assert group.wait(20)["state"] == "succeeded"
    assert log.read_text() == f"{core}\n"
