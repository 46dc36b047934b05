"""A waitress server that completes every accepted request before it stops."""

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, WSGITask

# A connection that was idle for this long has no request in flight.
QUIET_SECONDS = 0.2
POLL_SECONDS = 0.02
LINGER_SECONDS = 5.0


class _Task(WSGITask):
    """A response; while the server drains, it closes its connection."""

    def build_response_header(self) -> Any:
        """Add `Connection: close` while the server drains, so that clients reconnect elsewhere."""
        if self.channel.server.is_draining:
            self.request.headers["CONNECTION"] = "close"
        return super().build_response_header()


class _Parser(HTTPRequestParser):
    """A request; the client is not asked to continue a body that is too large."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if self.content_length >= self.adj.max_request_body_size:
            self.expect_continue = False


class _Refusal(ErrorTask):
    """The response to an unreadable request; it closes its connection."""

    def execute(self) -> None:
        error = self.request.error
        data = json.dumps({"error": f"{error.reason}: {error.body}"}).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/json"))
        self.set_close_on_finish()
        self.content_length = len(data)
        self.channel.is_refused = True
        self.write(data)


class _Channel(HTTPChannel):
    """A connection; after a refusal it reads and drops further data for LINGER_SECONDS.

    If it were closed at once, the kernel would reset it, and the client might miss the response.
    """

    parser_class = _Parser
    task_class = _Task
    error_task_class = _Refusal
    is_refused = False
    close_when_flushed: bool
    lingers_until = 0.0

    def handle_write(self) -> None:
        """Send pending data; after a refusal close the sending side and continue to read."""
        if not (self.is_refused and self.close_when_flushed):
            super().handle_write()
            return
        self._flush_exception(self._flush_some)
        if self.will_close:
            self.handle_close()
        elif not self.total_outbufs_len:
            self.close_when_flushed = False
            self.lingers_until = time.time() + LINGER_SECONDS
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self.handle_close()

    def handle_read(self) -> None:
        """Read requests; after a refusal drop the data."""
        if not self.lingers_until:
            super().handle_read()
            return
        try:
            data = self.recv(self.adj.recv_bytes)
        except OSError:
            data = b""
        if not data or time.time() > self.lingers_until:
            self.handle_close()


class DrainingServer(TcpWSGIServer):
    """A server at one address. `drain` completes its work but does not exit the process."""

    channel_class = _Channel

    def __init__(self, app: Callable[..., Any], **adjustments: Any):
        self.is_draining = False
        super().__init__(app, map={}, adj=Adjustments(**adjustments))

    def drain(self, *, timeout_seconds: float) -> None:
        """Stop listening, complete all requests, and return when every connection is idle."""
        began = time.time()  # as waitress's last_activity
        self.is_draining = True
        self.trigger.pull_trigger(self._stop_listening)
        while time.time() < began + timeout_seconds and self._is_busy(began):
            time.sleep(POLL_SECONDS)

    def _is_busy(self, began: float) -> bool:
        quiet_since = time.time() - QUIET_SECONDS
        return began > quiet_since or any(
            channel.requests or channel.total_outbufs_len or channel.last_activity > quiet_since
            for channel in list(self.active_channels.values())
        )

    def _stop_listening(self) -> None:
        """Accept the connections in the backlog, which the kernel would reset; then close."""
        num_channels = -1
        while num_channels != len(self.active_channels):
            num_channels = len(self.active_channels)
            self.handle_accept()
        wasyncore.dispatcher.close(self)
