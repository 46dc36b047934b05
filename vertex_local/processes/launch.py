"""Starts supervisors of groups: forks of the warm process, or else new interpreters."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vertex_local.processes.warm import CLIENT_VARIABLE, Warm, WarmClient

SUPERVISOR_LOG = "supervisor.log"
# For what would import as much itself, and more slowly, since several of it do so at a time.
WARM_PATIENCE_SECONDS = 20.0


class SupervisorProcess(Protocol):
    """What both kinds have in common."""

    pid: int

    def wait(self) -> int:
        """Waits for its end and answers the exit code."""

    def kill(self) -> None:
        """Kills it."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How the supervisor of a group is to start.

    Attributes:
        warm: What forks it, if it can.
        patience_seconds: How long to wait for a warm process that is still importing. Worth it for
            processes that would import as much themselves.
        starts_groups: Whether the group's processes may have the warm process fork for them.
    """

    warm: WarmClient | None = None
    patience_seconds: float = 0.0
    starts_groups: bool = False

    def start(self, folder: Path, *, stdin: int) -> SupervisorProcess:
        """The supervisor of the group in `folder`.

        Raises:
            OSError: no process can be started.
        """
        if isinstance(self.warm, Warm):
            self.warm.await_ready(self.patience_seconds)
        with (folder / SUPERVISOR_LOG).open("ab") as log:
            forked = self.warm and self.warm.fork_supervisor(
                folder, stdin=stdin, log=log.fileno(), is_client=self.starts_groups
            )
            return forked or self._spawn(folder, stdin=stdin, log=log.fileno())

    def _spawn(self, folder: Path, *, stdin: int, log: int) -> SupervisorProcess:
        fds = [self.warm.fd] if self.warm and self.starts_groups else []
        return subprocess.Popen(
            [sys.executable, "-m", "vertex_local.processes.supervisor", str(folder)],
            cwd=Path(__file__).parents[2],  # importable from a checkout, too
            env={**os.environ, **({CLIENT_VARIABLE: str(fds[0])} if fds else {})},
            stdin=stdin,
            stdout=log,
            stderr=log,
            pass_fds=fds,
            start_new_session=True,  # Ctrl-C in the terminal is for the service
        )
