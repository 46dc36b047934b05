"""Connections of the service, with error responses to requests that cannot be parsed.

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
        body = ApiError(code=error.code, status=status, message=message).to_body()
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
    is_from_lane = False  # its next request is one that the lane did not forward

    def received(self, data: bytes) -> Any:
        """Handle data; hand a connection that begins a prediction request over to the lane."""
        if self._enters_lane(data):
            return True
        self.is_from_lane = False
        return super().received(data)

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

    def _enters_lane(self, data: bytes) -> bool:
        lane = self.server.lane
        if lane is None or self.is_from_lane or self.request is not None:
            return False
        with self.requests_lock:
            is_busy = self.requests or self.will_close or self.close_when_flushed
        if is_busy or self.total_outbufs_len or not lane.wants(data):
            return False
        self.del_channel()
        # This object may handle another event of the socket, which must not close it.
        connected = socket.socket(fileno=self.socket.detach())
        lane.take(connected, self.addr, data, self.server.take_back)
        return True

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
