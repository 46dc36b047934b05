"""Child processes that end with their parent, even if that is killed.

A `preexec_fn` would fork with the handlers of libraries, and those of gRPC abort a child whose
parent has used it. So the child asks the kernel itself: as a program, this module does that and
then runs another module of ours.

    python -m trainer.runtime.processes PARENT MODULE [ARGUMENT ...]
"""

import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def ending_with_parent(module: str, *arguments: str) -> list[str]:
    """Return the command of a module of ours whose process ends when this process does.

    Without -P a json.py in the current folder would hide Python's own.
    """
    command = [sys.executable, "-P", "-m", __spec__.name]
    return [*command, str(os.getpid()), module, *arguments]


def end_with(parent: int) -> None:
    """Have Linux kill this process when its parent ends: a signal may skip its `finally`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


if __name__ == "__main__":
    end_with(int(sys.argv.pop(1)))
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
