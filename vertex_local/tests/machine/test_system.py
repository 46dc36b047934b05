"""One seam has what only Linux has; its portable side ends every process, also of killed ones."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import vertex_local
from vertex_local.machine.system import PORTABLE_VARIABLE
from vertex_local.processes import group
from vertex_local.tests.support.seen import await_end_of, running
from vertex_local.tests.support.sleeping_processes import SHELLS
from vertex_local.tests.support.waiting import wait_until

PACKAGE = Path(vertex_local.__file__).parent
ON_LINUX_ONLY = re.compile(
    r"/proc/|prctl|pidfd|unshare\(|setns|sched_|waitid|NETLINK|epoll|memfd|/dev/shm|O_PATH"
    r"|machine import.*\b(linux|namespaces)\b|machine\.(linux|namespaces)\b"
)
# Only Linux runs these: the warm process, and forks of it.
OF_FORKS = {"processes/warm.py", "processes/warm_process.py", "processes/forking.py"}
SERVICE = """
import sys, time
from pathlib import Path
from vertex_local.processes import group as processes
folder = Path(sys.argv[1])
specs = [
    processes.ProcessSpec(name, sys.argv[2:], {}, None, folder / "log") for name in ("a", "b")
]
processes.start(folder, specs, timeout_seconds=None, has_private_network=True)
time.sleep(60)
"""


@pytest.mark.fast
def test_no_module_but_the_seam_names_what_only_linux_has():
    named = {
        f"{name}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        if not (name := str(path.relative_to(PACKAGE))).startswith(("tests/", "machine/"))
        for line in path.read_text().splitlines()
        if ON_LINUX_ONLY.search(line) and name not in OF_FORKS
    }
    assert not named, "write a function for it in machine/linux.py and machine/portable.py"


@pytest.fixture
def portable_group(tmp_path, monkeypatch):
    """Function that starts a group in portable mode and returns its service and its folder."""
    services = []

    def start(command: str, marker: str):
        monkeypatch.setenv(PORTABLE_VARIABLE, "1")
        folder = tmp_path / "group"
        words = ["sh", "-c", command.format(marker)]
        services.append(subprocess.Popen([sys.executable, "-c", SERVICE, str(folder), *words]))
        wait_until(lambda: len(running(marker)) >= 4, "two processes of two replicas")
        return services[-1], folder

    yield start
    for service in services:
        service.kill()
        service.wait(20)


@pytest.mark.parametrize(
    ("killed", "shell"),
    [
        ("service", "own-session"),
        ("supervisor", "child"),
        ("service and supervisor", "own-session"),
        ("replica", "own-session"),
    ],
)
def test_portable_kills_leave_no_process(portable_group, killed, shell):
    marker = f"300.{os.getpid()}{len(killed)}{len(shell)}"
    service, folder = portable_group(SHELLS[shell], marker)
    children = psutil.Process(service.pid).children()
    [supervisor] = [child for child in children if "supervisor" in " ".join(child.cmdline())]

    if killed == "replica":
        os.kill(group.read_state(folder)["replicas"]["a"]["pid"], signal.SIGKILL)
    if killed == "service and supervisor":
        service.send_signal(signal.SIGSTOP)  # so that it cannot react to the next kill
    if "supervisor" in killed:
        supervisor.kill()
    if "service" in killed:
        service.kill()

    guards = (str(folder),) if "service" in killed else ()
    await_end_of(marker, *guards)


def test_a_portable_group_warns_that_its_network_is_open(portable_group):
    _, folder = portable_group(SHELLS["child"], f"300.{os.getpid()}9")
    [warning] = group.read_state(folder)["warnings"]
    assert "only Linux has network namespaces" in warning
