"""Free ports on the loopback address, each reserved for one user at a time."""

import errno
import random
import socket
import threading

from vertex_local.errors import ApiError

LOOPBACK = "127.0.0.1"
# Below the range that Linux uses for outgoing connections, so that a port which is free now is
# still free when a replica listens on it seconds later.
FIRST, LAST = 20000, 32000


class PortPool:
    """Pool of ports on which no process listens, each reserved until it is given back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    def take(self, count: int) -> list[int]:
        """Reserve `count` ports.

        Raises:
            ApiError: RESOURCE_EXHAUSTED.
        """
        start = random.randrange(LAST - FIRST)
        candidates = (FIRST + (start + i) % (LAST - FIRST) for i in range(LAST - FIRST))
        ports: list[int] = []
        with self._lock:
            while len(ports) < count:
                port = next(candidates, None)
                if port is None:
                    raise ApiError(
                        "RESOURCE_EXHAUSTED",
                        f"Fewer than {count} ports are free from {FIRST} to {LAST}.",
                    )
                if port not in self._taken and _is_free(port):
                    ports.append(port)
            self._taken.update(ports)
        return ports

    def take_or_other(self, port: int) -> int:
        """Reserve a port, or another one if it is in use; return which.

        Raises:
            ApiError: RESOURCE_EXHAUSTED.
        """
        with self._lock:
            if port not in self._taken and _is_free(port, may_linger=True):
                self._taken.add(port)
                return port
        return self.take(1)[0]

    def give_back(self, ports: list[int]) -> None:
        """Release ports."""
        with self._lock:
            self._taken.difference_update(ports)


def _is_free(port: int, *, may_linger: bool = False) -> bool:
    """Return whether a server can listen on a port; `may_linger`: with connections just closed."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, may_linger)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


# One pool for the whole service: jobs and endpoints share the ports of the machine.
POOL = PortPool()
