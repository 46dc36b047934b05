"""Connections to a prediction server, in the HTTP server's loop, kept for the next requests."""

import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import httptools

from vertex_local.api.routes import Message
from vertex_local.endpoints.server_requests import is_json
from vertex_local.machine.ports import LOOPBACK

logger = logging.getLogger(__name__)

# Servers close idle connections too, after 5 s at the earliest (uvicorn, Node). A request that is
# sent then is lost.
IDLE_SECONDS = 2.0
READ_BYTES = 1024 * 1024
FIRST_FINAL_STATUS = 200  # those before are interim responses

# Gets the response; LostError, or TimeoutError at the deadline.
Done = Callable[[Message | Exception], None]


class LostError(Exception):
    """The connection was lost before the response; perhaps the server `was_sent` the request."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class ServerConnections:
    """Connections to one process of a prediction server; `loop_map` is waitress's map."""

    def __init__(self, loop_map: dict[int, Any], port: int, route: str) -> None:
        self.loop_map = loop_map
        self.address = (LOOPBACK, port)
        self.idle: list[ServerConnection] = []
        self._start = f"POST {route} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\n"

    def send(self, request: Message, *, deadline: float, done: Done) -> None:
        """Send a request; call `done`, at the latest at the deadline, by time.monotonic."""
        try:
            connection = self.idle.pop() if self.idle else ServerConnection(self)
        except OSError as error:  # too many open files
            done(LostError(str(error), was_sent=False))
            return
        fields = "".join(f"{name}: {value}\r\n" for name, value in request.fields.items())
        head = f"{self._start}{fields}Content-Length: {len(request.data)}\r\n\r\n"
        connection.send(head.encode("latin-1") + request.data, deadline=deadline, done=done)


class ServerConnection:
    """Connection with one request at a time: an entry of the loop's map."""

    accepting = False

    def __init__(self, pool: ServerConnections) -> None:
        self._pool = pool
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.connect_ex(pool.address)  # the loop reports an error
        self._number = self._socket.fileno()
        self.send(b"", deadline=time.monotonic() + IDLE_SECONDS, done=None)
        pool.loop_map[self._number] = self

    def send(self, data: bytes, *, deadline: float, done: Done | None) -> None:
        """Send a request, later if the socket is not connected or its buffer is full."""
        self._unsent, self._was_sent = data, False
        self._deadline, self._done = deadline, done
        self._parser = httptools.HttpResponseParser(self)
        self._fields: dict[str, str] = {}
        self._body: list[bytes] = []
        self._response: Message | None = None
        self._is_kept = False
        if data:
            self.handle_write_event()

    # Called by the loop.

    def readable(self) -> bool:
        """Return True, to be read; end a request that is too late, or an idle connection."""
        if self._number >= 0 and time.monotonic() > self._deadline:
            self._end(TimeoutError())
        return self._number >= 0

    def writable(self) -> bool:
        """Return whether data waits to be sent."""
        return self._number >= 0 and bool(self._unsent)

    def handle_write_event(self) -> None:
        """Send more of a request."""
        try:
            count = self._socket.send(self._unsent)
        except OSError:  # not yet connected, full or broken: the loop waits, or reports an error
            return
        self._was_sent = True
        self._unsent = self._unsent[count:]

    def handle_read_event(self) -> None:
        """Parse a part of a response."""
        self._read()

    def handle_close(self) -> None:
        """Read what the other end sent before it closed the connection, or its error."""
        while self._read():
            pass
        self._lose("it closed the connection")

    def handle_error(self) -> None:
        """Log the current exception, and close the connection in whose handler it was raised."""
        logger.exception("Unexpected error on the connection to a prediction server")
        self._lose("internal error")

    handle_expt_event = handle_read_event

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Do not keep a connection with data after the response."""
        self._is_kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field."""
        self._fields[name.decode("latin-1")] = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body."""
        self._body.append(part)

    def on_message_complete(self) -> None:
        """Keep the response, unless it is an interim one."""
        status = self._parser.get_status_code()
        if status >= FIRST_FINAL_STATUS and self._response is None:
            self._response = Message(b"".join(self._body), self._fields, status)
            self._is_kept = self._parser.should_keep_alive()
        self._fields, self._body = {}, []

    def _read(self) -> bool:
        """Read and parse; return whether there may be more."""
        if self._number < 0:
            return False
        try:
            data = self._socket.recv(READ_BYTES)
            if data:
                self._parser.feed_data(data)
        except BlockingIOError:
            return False
        except (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._lose(repr(error))
            return False
        if not data:
            self._complete_without_length()
        if self._done is None:
            self._lose("data without a request")
        elif self._response:
            self._end(self._response, is_kept=self._is_kept)
        elif not data:
            self._lose("it closed the connection")
        return True

    def _complete_without_length(self) -> None:
        """Keep the response if the end of the data is its end."""
        names = {name.lower() for name in self._fields}
        body = b"".join(self._body)
        if names.isdisjoint({"content-length", "transfer-encoding"}) and is_json(body):
            self._response = Message(body, self._fields, self._parser.get_status_code())

    def _lose(self, reason: str) -> None:
        self._end(LostError(reason, was_sent=self._was_sent))

    def _end(self, outcome: Message | Exception, *, is_kept: bool = False) -> None:
        """End a request, and the connection unless it is kept for the next one."""
        done = self._done
        if is_kept:
            self._deadline, self._done = time.monotonic() + IDLE_SECONDS, None
            self._pool.idle.append(self)
        elif self._number >= 0:
            del self._pool.loop_map[self._number]
            self._number, self._done = -1, None
            self._socket.close()
            if self in self._pool.idle:
                self._pool.idle.remove(self)
        if done is not None:
            done(outcome)
