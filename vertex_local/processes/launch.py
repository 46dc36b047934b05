"""Start of supervisors, as forks of the warm process if possible, else as new interpreters."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from vertex_local.processes.warm import Warm, WarmClient, WarmSupervisor, client_environment

SUPERVISOR_LOG = "supervisor.log"
# For processes that would import the same modules, several at a time and so more slowly.
WARM_PATIENCE_SECONDS = 20.0


SupervisorProcess = WarmSupervisor | subprocess.Popen[bytes]  # a fork, or a new interpreter


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Options for starting the supervisor of a group.

    Attributes:
        warm: Warm process to fork from, if ready.
        patience_seconds: Time to wait for the last stage of the warm process; worthwhile for
            processes that would import the same modules. The first stage is always waited for.
        starts_groups: Whether the processes of the group may start groups from the warm process.
        is_light: Whether they use none of its imported modules.
    """

    warm: WarmClient | None = None
    patience_seconds: float = 0.0
    starts_groups: bool = False
    is_light: bool = False

    def start(self, folder: Path, *, stdin: int) -> SupervisorProcess:
        """Start the supervisor of the group in `folder`.

        Raises:
            OSError: No process can be started.
        """
        if isinstance(self.warm, Warm):
            self.warm.await_ready(WARM_PATIENCE_SECONDS, any_stage=True)
            self.warm.await_ready(self.patience_seconds)
        with (folder / SUPERVISOR_LOG).open("ab") as log:
            forked = self.warm and self.warm.fork_supervisor(
                folder,
                stdin=stdin,
                log=log.fileno(),
                is_client=self.starts_groups,
                is_light=self.is_light,
            )
            return forked or self._spawn(folder, stdin=stdin, log=log.fileno())

    def _spawn(self, folder: Path, *, stdin: int, log: int) -> SupervisorProcess:
        fds = self.warm.fds if self.warm and self.starts_groups else []
        return subprocess.Popen(
            [sys.executable, "-m", "vertex_local.processes.supervisor", str(folder)],
            cwd=Path(__file__).parents[2],  # to import from a checkout
            env=os.environ | client_environment(fds),
            stdin=stdin,
            stdout=log,
            stderr=log,
            pass_fds=fds,
            start_new_session=True,  # Ctrl-C in the terminal is for the service
        )
