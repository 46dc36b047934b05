"""The running service, as the argument of handlers."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vertex_local.api.database.store import Store
from vertex_local.api.resource_names import ResourcePath
from vertex_local.client import EMULATOR_VARIABLE
from vertex_local.machine.clock import Clock
from vertex_local.machine.docker_engine import Engine
from vertex_local.processes.launch import WARM_PATIENCE_SECONDS, Launch
from vertex_local.processes.warm import Warm

DEFAULT_PARALLEL = 16  # enough for tasks that wait for jobs, deployments and one another


@dataclass
class Service:
    """State of a running service.

    Attributes:
        url: Its address, `http://127.0.0.1:8085`.
        token: Secret that requests must have; "" where the kernel tells whose they are.
        engine: If set, replicas, steps and prediction servers run in containers.
        stays: Set unless the service stops with the command that started it; schedules run only
            while it is set.
        ending: Set at the start of the shutdown; runs interrupted from then on are continued by
            the next service.
        closing: Set later in the shutdown, after which requests are refused.
        running: Live objects (process groups and so on) by resource name.
    """

    root: Path
    store: Store
    url: str
    token: str = ""
    warm: Warm | None = None
    engine: Engine | None = None
    runs_host_commands: bool = False
    num_parallel: int = DEFAULT_PARALLEL
    clock: Clock = field(default_factory=Clock)
    stays: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    running: dict[str, Any] = field(default_factory=dict)

    def variables(self, name: ResourcePath) -> dict[str, str]:
        """Return the variables of a run's processes that lead to this service and its project."""
        return {
            EMULATOR_VARIABLE: self.url.removeprefix("http://"),
            "CLOUD_ML_PROJECT_ID": name.project,
            "CLOUD_ML_REGION": name.location,
        }

    @property
    def launch(self) -> Launch:
        """Start method of supervisors; containers are not forked from the warm process."""
        if self.engine:
            return Launch()
        return Launch(warm=self.warm, patience_seconds=WARM_PATIENCE_SECONDS)
