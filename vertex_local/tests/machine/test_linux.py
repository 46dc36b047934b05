"""System calls of Linux."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
import time
from pathlib import Path
from vertex_local.machine.linux import set_session_niceness
deadline = time.monotonic() + 10
while True:  # without root the kernel may be busy with the call of another test
    set_session_niceness(7)
    found = Path("/proc/self/autogroup").read_text()
    if found.split()[-1] == "7" or time.monotonic() > deadline:
        break
    time.sleep(0.05)
print(found)
"""


@pytest.mark.linux("sessions with a niceness")
@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="this kernel does not weigh sessions"
)
def test_a_session_gets_a_niceness():
    run = [sys.executable, "-c", SOURCE]
    found = subprocess.run(run, start_new_session=True, capture_output=True, text=True, check=True)
    assert found.stdout.split()[-2:] == ["nice", "7"]
