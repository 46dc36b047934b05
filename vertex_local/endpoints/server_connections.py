"""Connections to a prediction server that are kept for the next requests."""

import errno
import logging
import socket
from collections import deque
from typing import Protocol

from vertex_local.endpoints.server_requests import is_json
from vertex_local.endpoints.server_responses import read_head, read_response
from vertex_local.http.event_loop import Connection, EventLoop
from vertex_local.machine.ports import LOOPBACK

logger = logging.getLogger(__name__)

# Servers close idle connections too, after 5 s at the earliest (uvicorn, Node). A request that is
# sent then is lost.
IDLE_SECONDS = 2.0
MAX_PIPELINED_CONNECTIONS = 4


class Exchange(Protocol):
    """Request to a prediction server, and the handlers of its outcome."""

    body: bytes
    deadline: float  # by time.monotonic

    def answered(self, status: int, data: bytes) -> None:
        """Handle the response."""

    def unanswered(self) -> None:
        """Handle the loss of the connection before the response."""

    def timed_out(self) -> None:
        """Handle the end of the time limit."""


class ServerConnections:
    """Connections to one process of a prediction server."""

    def __init__(self, loop: EventLoop, port: int, route: str) -> None:
        self.loop = loop
        self.address = (LOOPBACK, port)
        self.idle: list[ServerConnection] = []
        self.busy: set[ServerConnection] = set()
        self.num_pipelined = 1
        self._head = (
            f"POST {route} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._current: ServerConnection | None = None  # of this round of events

    def send(self, exchange: Exchange) -> None:
        """Send a request at the end of this round of events.

        The requests of a round share a connection if the server handles several at once.
        """
        connection = self._current
        if connection is None or not connection.has_room:
            try:
                connection = self._choose()
            except OSError as error:  # too many open files
                logger.warning("No connection to a prediction server: %s", error)
                exchange.unanswered()
                return
            if self.num_pipelined > 1:
                self._current = connection
                self.loop.call_at_end_of_round(self._end_round)
        connection.ask(
            exchange, b"%b%d\r\n\r\n%b" % (self._head, len(exchange.body), exchange.body)
        )

    def _choose(self) -> "ServerConnection":
        """Return an idle connection; else a new one, or the one with the fewest requests."""
        if self.idle:
            return self.idle.pop()
        if len(self.busy) >= MAX_PIPELINED_CONNECTIONS and self.num_pipelined > 1:
            fewest = min(self.busy, key=lambda one: len(one.exchanges))
            if fewest.has_room:
                return fewest
        return ServerConnection(self)

    def _end_round(self) -> None:
        self._current = None


class ServerConnection(Connection):
    """Connection to a prediction server; it has one request at a time, unless they are pipelined.

    https://www.rfc-editor.org/rfc/rfc9112#name-pipelining
    """

    def __init__(self, pool: ServerConnections) -> None:
        connected = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connected.setblocking(False)
        self._error = connected.connect_ex(pool.address)
        super().__init__(pool.loop, connected)
        self._pool = pool
        self.exchanges: deque[Exchange] = deque()  # sent, in the order of their responses
        self._unwritten: list[bytes] = []
        self._data = bytearray()
        self._active_at = pool.loop.now

    @property
    def has_room(self) -> bool:
        """True if another request may be sent before the next response."""
        return self.is_open and len(self.exchanges) < self._pool.num_pipelined

    def ask(self, exchange: Exchange, request: bytes) -> None:
        """Send a request at the end of this round of events."""
        if not self.exchanges:
            self._pool.busy.add(self)
        self.exchanges.append(exchange)
        if not self._unwritten:
            self.loop.call_at_end_of_round(self._write)
        self._unwritten.append(request)

    def received(self, data: bytes) -> None:
        """Handle responses, of which the last may be incomplete."""
        if self._data:
            self._data += data
        whole = self._data or data
        end, is_last = 0, not self.exchanges  # without a request: an error about a timeout
        try:
            while self.exchanges and not is_last and (found := read_response(whole, end)):
                head, body, end = found
                is_last = head.is_last
                self._pool.num_pipelined = head.num_pipelined
                self.exchanges.popleft().answered(head.status, body)
        except ValueError as error:
            logger.warning("%s", error)
            is_last = True
        if is_last or (end < len(whole) and not self.exchanges):
            self._data.clear()
            self.fail()
        elif self._data:
            del self._data[:end]
        else:
            self._data += data[end:]
        if self.is_open and not self.exchanges:
            self._active_at = self.loop.now
            self._pool.busy.discard(self)
            self._pool.idle.append(self)

    def lost(self) -> None:
        """Tell the requests without a response; one without a length may be complete."""
        self._forget()
        exchanges, self.exchanges = self.exchanges, deque()
        if not exchanges:
            return
        head, start = read_head(self._data)
        body = bytes(self._data[start:])
        if head and head.num_bytes is None and not head.is_chunked and is_json(body):
            exchanges.popleft().answered(head.status, body)
        for exchange in exchanges:
            exchange.unanswered()

    def check_time(self) -> None:
        """End requests that are too late; close the connection if it is idle."""
        if not self.exchanges:
            if self.loop.now - self._active_at > IDLE_SECONDS:
                self.fail()
        elif self.loop.now > self.exchanges[0].deadline:
            exchange = self.exchanges.popleft()
            self._data.clear()
            self.fail()
            exchange.timed_out()

    def _write(self) -> None:
        requests, self._unwritten = self._unwritten, []
        if self._error not in (0, errno.EINPROGRESS):
            self.fail()
        elif self.is_open:
            self.send(requests[0] if len(requests) == 1 else b"".join(requests))

    def _forget(self) -> None:
        self._pool.busy.discard(self)
        if self in self._pool.idle:
            self._pool.idle.remove(self)
