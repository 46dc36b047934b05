"""The running service, as handlers see it."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vertex_local.clock import Clock
from vertex_local.store import Store, now
from vertex_local.warm import Warm

__all__ = ["Service", "now"]


@dataclass
class Service:
    """Root folder, store and address of a service, its warm process, and what it runs now."""

    root: Path
    store: Store
    url: str
    warm: Warm | None = None
    clock: Clock = field(default_factory=Clock)
    # Set when it does not end with the command that started it: schedules run only then.
    stays: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    # Live objects (process groups and the like) by resource name: each module keeps its own kind.
    running: dict[str, Any] = field(default_factory=dict)
