"""Free ports on the loopback address, none of them handed out twice."""

import errno
import random
import socket
import threading

from vertex_local.errors import resource_exhausted

HOST = "127.0.0.1"
# Below the range from which Linux takes ports for outgoing connections: one that is free now is
# still free when a replica, seconds later, listens on it.
FIRST, LAST = 20000, 32000


class PortPool:
    """Hands out ports that nobody listens on, until they are given back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    def take(self, count: int) -> list[int]:
        """`count` ports.

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
                    raise resource_exhausted(f"No {count} ports are free from {FIRST} to {LAST}.")
                if port not in self._taken and _is_free(port):
                    ports.append(port)
            self._taken.update(ports)
        return ports

    def give_back(self, ports: list[int]) -> None:
        """Makes the ports available again."""
        with self._lock:
            self._taken.difference_update(ports)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


# One for the process: the ports are the machine's, whoever of this service asks for them.
POOL = PortPool()
