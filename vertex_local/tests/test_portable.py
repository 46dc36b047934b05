"""`make test-portable` hides what only Linux has, in every process."""

import os
import subprocess
import sys
from pathlib import Path

HIDER = Path(__file__).parent / "support" / "portable"
NAMES = (
    "os.pidfd_open",
    "os.sched_getaffinity",
    "os.O_PATH",
    "os.memfd_create",
    "select.epoll",
    "signal.pidfd_send_signal",
    "socket.AF_NETLINK",
    "socket.TCP_USER_TIMEOUT",
    "time.CLOCK_TAI",
    "socket.SO_PEERCRED",
    "fcntl.F_OFD_SETLK",
    "resource.prlimit",
)
ACTIONS = (
    "os.listdir('/proc')",
    "open('/proc/self/stat')",
    "os.readlink('/proc/self/fd/0')",
    "os.stat('/sys')",
    "os.scandir('/dev/shm')",
    "pathlib.Path('/proc/cpuinfo').read_text()",
    "os.open('/proc/self/status', os.O_RDONLY)",
)
CALLS = ("prctl", "unshare", "setns", "mount")
# Prints the names that exist and the actions that succeed.
TRY_ALL = """
import ctypes, fcntl, os, pathlib, resource, select, signal, socket, sys, time
names, actions, calls = {names}, {actions}, {calls}
for name in names:
    module, _, attribute = name.partition(".")
    if hasattr(sys.modules[module], attribute):
        print(name)
for action in (*actions, *(f"ctypes.CDLL(None).{{call}}" for call in calls)):
    try:
        eval(action)
    except (FileNotFoundError, AttributeError):
        continue
    print(action)
"""


def run_hidden(code: str, *, beside: Path | None = None) -> str:
    path = os.pathsep.join(map(str, filter(None, (HIDER, beside))))
    env = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    return (out.stdout + out.stderr).strip()


def test_names_folders_and_system_calls_of_linux_are_hidden():
    assert run_hidden(TRY_ALL.format(names=NAMES, actions=ACTIONS, calls=CALLS)) == ""


def test_child_processes_have_the_same_interfaces():
    child = "import os; print(hasattr(os, 'pidfd_open'), os.path.exists('/proc'))"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-P', '-c', {child!r}])"
    assert run_hidden(code) == "False False"


def test_what_macos_has_as_well_still_works():
    code = (
        "import asyncio, multiprocessing, os, psutil, shutil; asyncio.run(asyncio.sleep(0));"
        "multiprocessing.Value('q'); assert shutil.rmtree.avoids_symlink_attacks;"
        "print(psutil.Process().status(), os.path.exists('/dev/fd'))"
    )
    assert run_hidden(code) == "running True"


def test_another_sitecustomize_runs_as_well(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    assert (
        run_hidden("import os; print(hasattr(os, 'pidfd_open'))", beside=tmp_path) == "mine\nFalse"
    )
