"""Child processes that end with their parent, even if that is killed."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def ends_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` with which the child ends when this process does."""
    return partial(_end_with, os.getpid(), ctypes.CDLL(None))


def end_with(parent: int) -> None:
    """Have Linux kill this process when its parent ends: a signal may skip its `finally`."""
    _end_with(parent, ctypes.CDLL(None))


def _end_with(parent: int, libc: ctypes.CDLL) -> None:
    if sys.platform == "linux":
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)
