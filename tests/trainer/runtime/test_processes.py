"""Programs that end with the process that started them."""

import subprocess
import sys

import pytest

PARENT = """\
import subprocess, sys
from trainer.runtime.processes import ending_with_parent
subprocess.run(ending_with_parent("sleeper", "an argument"))
"""
SLEEPER = """\
import sys, time
print(sys.argv[1:], __name__, flush=True)
time.sleep(600)
"""


@pytest.mark.timeout(30)
@pytest.mark.parametrize("portable", ["", "1"], ids=["by the kernel", "by a thread"])
def test_a_child_gets_its_arguments_and_ends_with_its_killed_parent(
    tmp_path, monkeypatch, portable
):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setenv("TRAINYARD_PORTABLE", portable)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout.readline() == "['an argument'] __main__\n"
        parent.kill()
        assert parent.stdout.read() == ""  # ends when no process holds the pipe
