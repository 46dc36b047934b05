"""Child processes: how they start, and that they end with their parent, even if that is killed.

A `preexec_fn` would fork with the handlers of libraries. The handlers of gRPC abort a child whose
parent has used gRPC. So the child asks the kernel itself: as a program, this module does that and
then runs another module of ours.

    python -m trainer.runtime.processes PARENT MODULE [ARGUMENT ...]
"""

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import time
from typing import Any

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
# On other systems, and in tests of what runs there.
IS_PORTABLE = sys.platform != "linux" or os.environ.get("TRAINYARD_PORTABLE") == "1"


def process_context() -> Any:
    """Return the `multiprocessing` context: processes are forked, which spares them all imports.

    On macOS they start anew: its libraries may have threads that a fork breaks (bpo-33725).
    """
    return multiprocessing.get_context("spawn" if IS_PORTABLE else "fork")


def ending_with_parent(module: str, *arguments: str) -> list[str]:
    """Return the command of a module of ours whose process ends when this process does.

    Without -P a json.py in the current folder would hide Python's own.
    """
    return [sys.executable, "-P", "-m", __spec__.name, str(os.getpid()), module, *arguments]


def end_with(parent: int) -> None:
    """End this process when its parent ends: a signal may skip its `finally`."""
    if IS_PORTABLE:
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()
    else:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def _exit_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    end_with(int(sys.argv.pop(1)))
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
