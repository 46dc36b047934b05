"""The running service, as handlers see it."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vertex_local.api.database.store import Store
from vertex_local.machine.clock import Clock
from vertex_local.machine.docker_engine import Engine
from vertex_local.processes.launch import WARM_PATIENCE_SECONDS, Launch
from vertex_local.processes.warm import Warm


@dataclass
class Service:
    """Root folder, store and address of a service, its warm process, and what it runs now.

    With an `engine`, replicas, steps and prediction servers run in containers.
    """

    root: Path
    store: Store
    url: str
    warm: Warm | None = None
    engine: Engine | None = None
    clock: Clock = field(default_factory=Clock)
    # Set when it does not end with the command that started it: schedules run only then.
    stays: threading.Event = field(default_factory=threading.Event)
    # Set when it is about to end: what is interrupted from now on is left to the next service.
    # Requests are refused from `closing` on.
    ending: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    # Live objects (process groups and the like) by resource name: each module keeps its own kind.
    running: dict[str, Any] = field(default_factory=dict)

    @property
    def launch(self) -> Launch:
        """How the supervisors of replicas and prediction servers start; no container is forked."""
        if self.engine:
            return Launch()
        return Launch(warm=self.warm, patience_seconds=WARM_PATIENCE_SECONDS)
