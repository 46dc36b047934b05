"""A server that completes every accepted request before it stops."""

import asyncio
import socket
import time
from email.utils import formatdate
from functools import partial
from typing import Any

from trainer.serving.http.connection import Connection
from trainer.serving.http.limits import ServerLimits

_BACKLOG = 1024
_SWEEP_SECONDS = 0.5
# A connection that was idle for this long has no request in flight.
_QUIET_SECONDS = 0.2
_POLL_SECONDS = 0.02


class Server:
    """Connections at one address; `app.handle` responds to their requests, at once or later."""

    def __init__(self, app: Any, limits: ServerLimits):
        self.connections: set[Connection] = set()
        self.is_draining = False
        self.date = b""
        self.now = time.monotonic
        self.app, self._limits = app, limits
        self._server: asyncio.Server | None = None
        self._connect = partial(Connection, self, limits)

    async def listen(self, listener: socket.socket) -> None:
        """Accept connections of a bound socket."""
        loop = asyncio.get_running_loop()
        self._listener = listener
        self._server = await loop.create_server(self._connect, sock=listener, backlog=_BACKLOG)
        self._sweep()

    async def drain(self, *, timeout_seconds: float) -> None:
        """Stop listening, complete all requests, and return when every connection is idle."""
        began = self.now()
        self.is_draining = True
        await self._stop_listening()
        while self.now() < began + timeout_seconds and self._is_busy(began):
            await asyncio.sleep(_POLL_SECONDS)

    def admit(self, connection: Connection) -> None:
        """Add a connection; beyond the limit it replaces an idle one, or is refused."""
        self.connections.add(connection)
        if len(self.connections) <= self._limits.connections:
            return
        idle = [peer for peer in self.connections if peer is not connection and not peer.is_busy]
        if idle:
            min(idle, key=lambda connection: connection.last_active).close()
        else:
            connection.refuse(503, f"all {self._limits.connections} connections are busy")

    def _sweep(self) -> None:
        """Close connections whose time has passed, again and again."""
        self.date = formatdate(usegmt=True).encode()
        now = self.now()
        for connection in list(self.connections):
            if connection.deadline <= now:
                connection.expire()
        asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def _is_busy(self, began: float) -> bool:
        quiet_since = self.now() - _QUIET_SECONDS
        return began > quiet_since or any(
            peer.is_busy or peer.last_active > quiet_since for peer in self.connections
        )

    async def _stop_listening(self) -> None:
        """Accept the connections in the backlog, which the kernel would reset; then close."""
        loop = asyncio.get_running_loop()
        assert self._server is not None
        while True:
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                break
            accepted.setblocking(False)
            await loop.connect_accepted_socket(self._connect, accepted)
        self._server.close()
