"""The running service, as handlers see it."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vertex_local.store import Store, now

__all__ = ["Service", "now"]


@dataclass
class Service:
    """Root folder, store and address of a service, and what it is running now."""

    root: Path
    store: Store
    url: str
    closing: threading.Event = field(default_factory=threading.Event)
    # Live objects (process groups and the like) by resource name: each module keeps its own kind.
    running: dict[str, Any] = field(default_factory=dict)
