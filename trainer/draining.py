"""A waitress server that ends without losing a request that it has accepted."""

import time
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import WSGITask

# A connection on which nothing happened for so long has no request on its way.
QUIET_SECONDS = 0.2
POLL_SECONDS = 0.02


class _Task(WSGITask):
    """A response that, while the server drains, is the last one of its connection."""

    def build_response_header(self) -> Any:
        """Tell a client whose connection is kept alive to open another one, elsewhere."""
        if self.channel.server.is_draining:
            self.request.headers["CONNECTION"] = "close"
        return super().build_response_header()


class _Channel(HTTPChannel):
    task_class = _Task


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
