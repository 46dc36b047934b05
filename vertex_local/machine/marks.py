"""Processes that were started with a mark in their environment."""

import os
from collections.abc import Callable
from contextlib import suppress

import psutil


def marked(is_marked: Callable[[dict[str, str]], bool]) -> list[psutil.Process]:
    """Return the other processes of this user whose environment at their start has a mark.

    A process that has ended, or whose environment cannot be read, is left out.
    """
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            is_own = process.pid != os.getpid() and process.uids().effective == os.geteuid()
            if is_own and is_marked(process.environ()):
                processes.append(process)
    return processes
