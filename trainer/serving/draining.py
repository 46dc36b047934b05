"""A waitress server that loses no request that it has accepted, and no refusal of one."""

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

# A connection on which nothing happened for so long has no request on its way.
QUIET_SECONDS = 0.2
POLL_SECONDS = 0.02
LINGER_SECONDS = 5.0


class _Task(WSGITask):
    """A response that, while the server drains, is the last one of its connection."""

    def build_response_header(self) -> Any:
        """Tell a client whose connection is kept alive to open another one, elsewhere."""
        if self.channel.server.is_draining:
            self.request.headers["CONNECTION"] = "close"
        return super().build_response_header()


class _Parser(HTTPRequestParser):
    """A request that is not asked for the rest of a body that is too large."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if self.content_length >= self.adj.max_request_body_size:
            self.expect_continue = False


class _Refusal(ErrorTask):
    """The response to a request that could not be read; the last one of its connection."""

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
    """A connection; after a refusal, what the client still sends is read and dropped for a while.

    Closed at once, the kernel would reset it, and the client might not see the refusal.
    """

    parser_class = _Parser
    task_class = _Task
    error_task_class = _Refusal
    is_refused = False
    close_when_flushed: bool
    lingers_until = 0.0

    def handle_write(self) -> None:
        """Send what waits; after a refusal say that it was the last, and read on."""
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
        """Read requests; after a refusal drop what comes."""
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
    """A server at one address. `drain` ends its work, not the process."""

    channel_class = _Channel

    def __init__(self, app: Callable[..., Any], **adjustments: Any):
        self.is_draining = False
        super().__init__(app, map={}, adj=Adjustments(**adjustments))

    def drain(self, *, timeout_seconds: float) -> None:
        """Answer all that has been sent, refuse new connections, and return when all is quiet."""
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
        """Accept the connections that wait already; the kernel would reset them otherwise."""
        num_channels = -1
        while num_channels != len(self.active_channels):
            num_channels = len(self.active_channels)
            self.handle_accept()
        wasyncore.dispatcher.close(self)
