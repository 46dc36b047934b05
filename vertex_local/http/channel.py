"""Connections of the service.

A plain prediction request is forwarded without a thread. A request that cannot be parsed gets an
error response.

If the server closes a connection on which the client still sends, the kernel resets it, and the
client may not receive the response. So further data is read and dropped for a few seconds.
"""

import json
import socket
import time
from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.task import ErrorTask

from vertex_local.errors import ApiError
from vertex_local.http.plain_requests import is_plain

LINGER_SECONDS = 5.0
TOO_LARGE = 413
STATUSES = {500: "INTERNAL", 501: "UNIMPLEMENTED"}


class _Parser(HTTPRequestParser):  # type: ignore[misc]  # waitress has no types
    """Parser that does not request the rest of a body that is too large."""

    def parse_header(self, header_plus: bytes) -> None:
        """Parse the head."""
        super().parse_header(header_plus)
        if self.content_length >= self.adj.max_request_body_size:
            self.expect_continue = False


class _Refusal(ErrorTask):  # type: ignore[misc]
    """Response to a request that could not be parsed; the last one of its connection."""

    def execute(self) -> None:
        """Send it."""
        error = self.request.error
        message = str(error.body)
        if error.code == TOO_LARGE:
            maximum = self.channel.adj.max_request_body_size
            message = f"The body is too large: at most {maximum - 1:,} bytes are allowed."
        status = STATUSES.get(error.code, "INVALID_ARGUMENT")
        body = ApiError(status, message, code=error.code).to_body()
        data = json.dumps(body).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/json; charset=utf-8"))
        self.set_close_on_finish()
        self.content_length = len(data)
        self.channel.is_refused = True
        self.write(data)


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection of the service."""

    parser_class = _Parser
    error_task_class = _Refusal
    is_refused = False
    lingers_until = 0.0

    def forward(self) -> bool:
        """Forward the next request, if it is plain; return False if it needs a thread."""
        request, forward = self.requests[0], self.server.forward
        if forward is None or not is_plain(request):
            return False
        body = request.get_body_stream()
        data = body.read()
        body.seek(0)
        return bool(forward(request.request_uri, data, self))

    def respond(self, status: str, body: bytes) -> None:
        """Send the response to a request that was forwarded."""
        head = (
            b"HTTP/1.1 %b\r\nContent-Length: %d\r\n"
            b"Content-Type: application/json; charset=utf-8\r\nDate: %b\r\n"
            b"Server: vertex-local\r\nX-Content-Type-Options: nosniff\r\n\r\n"
        )
        self._send_soon(head % (status.encode(), len(body), self.server.date()) + body)
        with self.requests_lock:
            if self.requests:  # unless it was closed
                self.requests.pop(0).close()
            if self.requests:
                self.server.add_task(self)
        self.last_activity = time.time()

    def decline(self) -> None:
        """Give a request that was forwarded a thread."""
        if self.connected:
            self.server.task_dispatcher.add_task(self)

    def handle_write(self) -> None:
        """Send buffered data; after a refusal close the sending side and continue reading."""
        if not (self.is_refused and self.close_when_flushed):
            super().handle_write()
            return
        self._flush_exception(self._flush_some)
        if self.will_close:
            self.handle_close()
        elif not self.total_outbufs_len:
            self._linger()

    def handle_read(self) -> None:
        """Read requests; after a refusal drop the data."""
        if not self.lingers_until:
            super().handle_read()
        elif not self._has_more_data() or time.time() > self.lingers_until:
            self.handle_close()

    def _send_soon(self, data: bytes) -> None:
        if not self.connected:
            return
        num_sent = 0
        if not self.total_outbufs_len:
            try:
                num_sent = self.send(data)
            except OSError:
                self.handle_close()
                return
        if self.connected and num_sent < len(data):
            self.write_soon(data[num_sent:])

    def _linger(self) -> None:
        self.close_when_flushed = False
        self.lingers_until = time.time() + LINGER_SECONDS
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.handle_close()

    def _has_more_data(self) -> Any:
        try:
            return self.recv(self.adj.recv_bytes)
        except OSError:
            return b""
