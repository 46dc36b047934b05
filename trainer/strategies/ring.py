"""A ring of replicas over TCP, whose vectors are added up and whose rows are gathered.

Each replica sends to the next one while it receives from the one before. It takes a third of the
time of TensorFlow's collectives, which pass through gRPC (`benchmarks.all_reduce`), and a replica
that ends is noticed at once.
"""

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.cluster.liveness import format_addresses

# Sent first: what this is, and the sender's rank and the number of replicas.
_HELLO = struct.Struct("!8sII")
_MAGIC = b"trnyard1"
_WELCOME = b"\x01"
_HELLO_TIMEOUT_SECONDS = 5.0
_RETRY_SECONDS = 0.05
_PAIR = 2


class Ring:
    """The connections of one replica to its neighbours.

    All replicas call the same methods in the same order.

    Raises:
        ConnectionError: by all methods, after a neighbour has ended.
    """

    def __init__(self, addresses: Mapping[str, str], name: str):
        """Listen; `addresses` are the host:port of all replicas by name, in the order of ranks."""
        self._addresses = dict(addresses)
        names = list(addresses)
        self.rank, self.size = names.index(name), len(names)
        self._names = [names[(self.rank + side) % self.size] for side in (1, -1)]
        self._next: socket.socket | None = None
        self._previous: socket.socket | None = None
        self._listener = listen(addresses[name])
        threading.Thread(target=self._accept, name="ring-accept", daemon=True).start()

    def connect(self, check: Callable[[], None]) -> None:
        """Connect to both neighbours; `check` is called while waiting, and may raise."""
        while self._next is None or self._previous is None:
            check()
            if self._next is None:
                self._next = self._greet(self._addresses[self._names[0]])
            else:
                time.sleep(_RETRY_SECONDS)

    def add(self, vector: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the vectors [n] of all replicas, with the same bits on all of them."""
        if self.size == _PAIR:
            other = np.empty_like(vector)
            self._exchange(vector, other)
            return np.add(vector, other, out=other)
        total, count = vector.copy(), len(vector)
        bounds = [count * number // self.size for number in range(self.size + 1)]
        parts = [total[start:stop] for start, stop in pairwise(bounds)]
        received = np.empty(max(map(len, parts)), vector.dtype)
        for sent, arriving in self._turns(first=self.rank):
            self._exchange(parts[sent], received[: len(parts[arriving])])
            parts[arriving] += received[: len(parts[arriving])]
        for sent, arriving in self._turns(first=self.rank + 1):
            self._exchange(parts[sent], parts[arriving])
        return total

    def gather(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the rows [n, …] of all replicas, of which n may differ, in the order of ranks."""
        counts = np.zeros(self.size, np.int64)
        counts[self.rank] = len(rows)
        counts = self.add(counts)
        parts = [np.empty((count, *rows.shape[1:]), rows.dtype) for count in counts]
        parts[self.rank] = np.ascontiguousarray(rows)
        for sent, arriving in self._turns(first=self.rank):
            self._exchange(parts[sent], parts[arriving])
        return np.concatenate(parts)

    def close(self) -> None:
        """End all connections."""
        # Else a blocked `accept` would keep the port.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for connection in (self._listener, self._next, self._previous):
            if connection:
                connection.close()

    def _turns(self, *, first: int) -> Iterator[tuple[int, int]]:
        """Yield the numbers of the parts to send and to receive, in the order of the turns."""
        for number in range(self.size - 1):
            yield (first - number) % self.size, (first - number - 1) % self.size

    def _exchange(self, sent: NDArray[Any], received: NDArray[Any]) -> None:
        """Send to the next replica while receiving from the one before."""
        assert self._next is not None
        assert self._previous is not None
        poll, left = select.poll(), dict[int, memoryview]()
        for connection, array, event in (
            (self._next, sent, select.POLLOUT),
            (self._previous, received, select.POLLIN),
        ):
            if array.size:
                poll.register(connection, event)
                left[connection.fileno()] = array.reshape(-1).view(np.uint8).data
        while left:
            for number, _ in poll.poll():
                is_out = number == self._next.fileno()
                with _naming(self._names[0 if is_out else 1], self._addresses):
                    data = left[number]
                    count = self._next.send(data) if is_out else self._previous.recv_into(data)
                    if not count:
                        raise ConnectionResetError("has closed its connection")
                left[number] = data[count:]
                if not left[number]:
                    poll.unregister(number)
                    del left[number]

    def _greet(self, address: str) -> socket.socket | None:
        """Return a connection to the next replica; None if it does not take it yet."""
        host, port = address.rsplit(":", 1)
        timeout = _HELLO_TIMEOUT_SECONDS
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            connection = socket.create_connection((host, int(port)), timeout=timeout)
            stack.callback(connection.close)
            connection.sendall(_HELLO.pack(_MAGIC, self.rank, self.size))
            if connection.recv(1) == _WELCOME:
                stack.pop_all()
                return _without_delay(connection)
        time.sleep(_RETRY_SECONDS)
        return None

    def _accept(self) -> None:
        """Accept the replica before this one; close all other connections, such as probes."""
        expected = _HELLO.pack(_MAGIC, (self.rank - 1) % self.size, self.size)
        while self._listener.fileno() >= 0:
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                with contextlib.ExitStack() as stack:
                    stack.callback(connection.close)
                    connection.settimeout(_HELLO_TIMEOUT_SECONDS)
                    if self._previous is None and connection.recv(_HELLO.size) == expected:
                        connection.sendall(_WELCOME)
                        self._previous = _without_delay(connection)
                        stack.pop_all()


def listen(address: str) -> socket.socket:
    """Return a socket that listens at host:port; on every interface unless that is of loopback.

    On a host its own name may stand for 127.0.1.1, where the others do not reach it.
    """
    host, port = address.rsplit(":", 1)
    is_loopback = host == "localhost" or host.startswith("127.")
    return socket.create_server((host if is_loopback else "", int(port)), backlog=128)


def _without_delay(connection: socket.socket) -> socket.socket:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@contextlib.contextmanager
def _naming(name: str, addresses: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        named = format_addresses({name: addresses[name]})
        raise ConnectionError(f"{named}: {error.strerror or error}") from error
