"""Removal of processes and temporary files that a killed service has left, at the next start.

Every process of a service has the root folder in its environment, as ROOT_VARIABLE, and its
temporary files in one folder, to which ROOT/tmp points. PID namespaces (`machine/namespaces.py`)
end the processes of a killed service already; where there are none, this module does. Only the
holder of the root's lock may call it.
"""

import fcntl
import logging
import os
import tempfile
import time
from pathlib import Path

import psutil

from vertex_local.machine.files import SERVICE_PREFIX, make_temp_dir, remove_temp_dir
from vertex_local.machine.marks import marked

logger = logging.getLogger(__name__)

ROOT_VARIABLE = "VERTEX_LOCAL_ROOT"
# Supervisors end their groups, and record that, when their service has ended.
SUPERVISORS_END_SECONDS = 2.0
KILL_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.02


def remove(root: Path) -> None:
    """Kill the processes and remove the temporary files of an earlier service."""
    deadline = time.monotonic() + SUPERVISORS_END_SECONDS
    while _marked(root) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    _kill(root)
    remove_temp_dir(root)


def mark_environment(root: Path) -> None:
    """Set the root's mark and a temporary folder for all children in this process's environment."""
    path = make_temp_dir(root, prefix=SERVICE_PREFIX)
    # Held as long as this process lives: systemd-tmpfiles removes old folders without a lock.
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH)
    os.environ |= {ROOT_VARIABLE: str(root), "TMPDIR": str(path)}
    tempfile.tempdir = None


def _kill(root: Path) -> None:
    """Kill marked processes until none is left: one may start another before it is killed."""
    deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
    while processes := _marked(root):
        if time.monotonic() > deadline:
            logger.warning(
                "%s of an earlier service on %s could not be killed within %.0f s",
                ", ".join(f"process {process.pid}" for process in processes),
                root,
                KILL_TIMEOUT_SECONDS,
            )
            return
        for process in processes:
            try:
                process.kill()  # unless its pid has been reused
                logger.info("Killed process %d of an earlier service", process.pid)
            except psutil.NoSuchProcess:
                pass
            except psutil.Error as error:
                logger.warning("A process of an earlier service cannot be killed: %s", error)
        psutil.wait_procs(processes, POLL_SECONDS)


def _marked(root: Path) -> list[psutil.Process]:
    return marked(lambda environment: environment.get(ROOT_VARIABLE) == str(root))
