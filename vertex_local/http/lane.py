"""Fast lane for prediction requests, beside the server's threads.

The server hands a connection that begins a plain prediction request over to the lane. The lane's
event loop forwards such requests. A connection with any other request, or with one that needs
waiting, retries or an explanation of an error, goes back to the server, with that request.
"""

import socket
import threading
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from vertex_local.http.event_loop import Connection, EventLoop
from vertex_local.http.plain_requests import END, MAX_BODY_BYTES, MAX_HEAD_BYTES, START, PlainHeads

MAX_CLIENTS = 512
HALF_OPEN_TIMEOUT_SECONDS = 20.0
IDLE_SECONDS = 10.0  # then the server watches the connection

# Forwards the body of a request to a path; returns False if the server must handle the request.
Forward = Callable[[str, bytes, "Client"], bool]
# Takes a connection back: its socket, the client's address, and the data that was read.
TakeBack = Callable[[socket.socket, Any, bytes], None]


class Lane:
    """Connections that send plain prediction requests."""

    def __init__(self, forward: Forward, loop: EventLoop) -> None:
        self.loop = loop
        self.heads = PlainHeads()
        self.forward = forward
        self.num_clients = 0
        self._date = (0.0, b"")
        self._lock = threading.Lock()

    def wants(self, data: bytes) -> bool:
        """Return whether the data of a connection begins a plain prediction request."""
        end = data.find(END, 0, MAX_HEAD_BYTES) + len(END)
        is_head = data.startswith(START) and end >= len(END)
        return is_head and self.num_clients < MAX_CLIENTS and bool(self.heads.parse(data[:end]))

    def take(self, connected: socket.socket, address: Any, data: bytes, back: TakeBack) -> None:
        """Take over a connection, with the data that was read from it."""
        self.count(1)

        def enter() -> None:
            client = Client(self, connected, address, back)
            self.loop.guard(client, lambda: client.received(data))

        self.loop.call(enter)

    def count(self, change: int) -> None:
        """Change the number of connections."""
        with self._lock:
            self.num_clients += change

    def date(self) -> bytes:
        """Return the time for the head of a response."""
        if self.loop.now - self._date[0] >= 1:
            self._date = (self.loop.now, formatdate(usegmt=True).encode())
        return self._date[1]


class Client(Connection):
    """Connection to a client; one request at a time is forwarded."""

    def __init__(
        self, lane: Lane, connected: socket.socket, address: Any, take_back: TakeBack
    ) -> None:
        super().__init__(lane.loop, connected)
        self._lane = lane
        self._address = address
        self._take_back = take_back
        self._data = b""  # received, and not yet forwarded
        self._request = b""  # that is being forwarded
        self._active_at = lane.loop.now

    def received(self, data: bytes) -> None:
        """Forward the next request once it is complete."""
        self._active_at = self.loop.now
        self._data = self._data + data if self._data else data
        if not self._request and not self.is_sending:
            self._forward_next()
        elif len(self._data) > MAX_BODY_BYTES:
            self.set_reading(False)

    def respond(self, body: bytes, status: bytes = b"200 OK") -> None:
        """Send the response to the request that was forwarded."""
        if not self.is_open:
            return
        self._request = b""
        self.send(
            b"HTTP/1.1 %b\r\nContent-Length: %d\r\n"
            b"Content-Type: application/json; charset=utf-8\r\nDate: %b\r\nServer: vertex-local\r\n"
            b"X-Content-Type-Options: nosniff\r\n\r\n%b"
            % (status, len(body), self._lane.date(), body)
        )
        if self._data and self.is_open and not self.is_sending:
            self._forward_next()
        self._close_if_done()

    def decline(self) -> None:
        """Give the connection back to the server, with the request that was forwarded."""
        if self.is_open:
            self._return()

    def drained(self) -> None:
        """Continue with the next request after a response that the client read slowly."""
        if self._data and not self._request:
            self._forward_next()
        self._close_if_done()

    def ended(self) -> None:
        """Send the responses that are due, then close: the client may have closed one side only."""
        self.set_reading(False)
        self._close_if_done()

    def lost(self) -> None:
        """Forget the connection."""
        self._lane.count(-1)

    def check_time(self) -> None:
        """Close a half-open connection, or one that is not read; give an idle one back."""
        quiet_seconds = self.loop.now - self._active_at
        if self.is_sending:
            if self.loop.now - self.sent_at > HALF_OPEN_TIMEOUT_SECONDS:
                self.fail()
        elif self._request:
            return
        elif self._data and quiet_seconds > HALF_OPEN_TIMEOUT_SECONDS:
            self.fail()
        elif not self._data and quiet_seconds > IDLE_SECONDS:
            self._return()

    def _forward_next(self) -> None:
        data = self._data
        end = data.find(END) + len(END)
        if end < len(END):
            if len(data) > MAX_HEAD_BYTES:
                self._return()
            return
        head = self._lane.heads.parse(data[:end])
        if head is None:
            self._return()
            return
        if len(data) > MAX_BODY_BYTES:  # also for the rest of a body at the limit
            self.set_reading(True)
        length = end + head.num_bytes
        if len(data) < length:
            return
        self._request, self._data = data[:length], data[length:]
        if not self._lane.forward(head.path, data[end:length], self):
            self._return()

    def _close_if_done(self) -> None:
        """Close the connection of a client that has ended, unless it waits for a response."""
        if self.has_ended and not self._request and not self.is_sending:
            self.fail()

    def _return(self) -> None:
        data, self._request = self._request + self._data, b""
        connected = self.leave()
        self.lost()
        self._take_back(connected, self._address, data)
