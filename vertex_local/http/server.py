"""HTTP server: waitress, with thread pools and limits that no client can exhaust."""

import heapq
import logging
import resource
import socket
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from waitress.adjustments import Adjustments
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from vertex_local.http.channel import Channel

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 1024 * 1024
API_THREADS = 16
# In flight, for all endpoints; each deployed model has its own limit.
MAX_PREDICTIONS = 256
PREDICTION_THREADS = MAX_PREDICTIONS + 16  # the rest refuses requests above the limit
WAIT_THREADS = 64
# Custom methods whose requests wait for other processes have their own threads, so that they do not
# delay other requests.
PREDICTION_METHODS = (":predict", ":rawPredict")
WAIT_METHODS = (":wait",)

READ_BYTES = 64 * 1024
MAX_CONNECTIONS = 2000
RESERVED_FILES = 1000  # for connections to prediction servers, logs, pipes and the database
MIN_CONNECTIONS = 200
ACCEPTS_AT_ONCE = 50
IDLE_TIMEOUT_SECONDS = 300
CLEANUP_INTERVAL_SECONDS = 5


# Forwards the body of a request to a path; returns False if the request needs a thread.
Forward = Callable[[str, bytes, Channel], bool]


class Pool(ThreadedTaskDispatcher):  # type: ignore[misc]  # waitress has no types
    """Thread pool that starts threads as needed, up to a maximum."""

    def __init__(self, max_threads: int) -> None:
        super().__init__()
        self._max_threads = max_threads

    def add_task(self, channel: Channel) -> None:
        """Queue the channel's next request."""
        if self.active_count + len(self.queue) >= len(self.threads) < self._max_threads:
            self.set_thread_count(len(self.threads) + 1)
        super().add_task(channel)


class Pools:
    """Thread pools by kind of request."""

    def __init__(self) -> None:
        self._api = Pool(API_THREADS)
        self._predictions = Pool(PREDICTION_THREADS)
        self._waits = Pool(WAIT_THREADS)

    def add_task(self, channel: Channel) -> None:
        """Queue the channel's next request in the pool of its kind."""
        path = getattr(channel.requests[0], "path", "")  # missing if the head could not be parsed
        if path.endswith(PREDICTION_METHODS):
            self._predictions.add_task(channel)
        elif path.endswith(WAIT_METHODS):
            self._waits.add_task(channel)
        else:
            self._api.add_task(channel)

    def shutdown(self) -> None:
        """Do nothing: the threads end with the process."""


class HttpServer(TcpWSGIServer):  # type: ignore[misc]
    """Server that closes idle connections, and at its limit the least recently used ones."""

    channel_class = Channel
    forward: Forward | None = None
    token = ""
    thread: threading.Thread

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._date = (0.0, b"")
        super().__init__(*arguments, **named)

    @property
    def loop_map(self) -> dict[int, Any]:
        """The connections of the loop, by the numbers of their files."""
        return self._map  # type: ignore[no-any-return]

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread; may be called in any thread."""
        self.trigger.pull_trigger(function)

    def add_task(self, channel: Channel) -> None:
        """Forward the channel's next request, or queue it for a thread."""
        if threading.current_thread() is not self.thread or not channel.forward():
            self.task_dispatcher.add_task(channel)

    def date(self) -> bytes:
        """Return the time for the head of a response."""
        now = time.monotonic()
        if now - self._date[0] >= 1:
            self._date = (now, formatdate(usegmt=True).encode())
        return self._date[1]

    def handle_accept(self) -> None:
        """Accept waiting connections; above the limit, close those that are idle longest.

        Accepts several at once, because the check of all connections takes milliseconds.
        """
        channels = self.active_channels
        for _ in range(ACCEPTS_AT_ONCE):
            before = len(channels)
            super().handle_accept()
            if len(channels) == before:
                break
        # Leave room for the next ones: at its limit waitress stops accepting.
        excess = len(self._map) - int(self.adj.connection_limit) + 2 * ACCEPTS_AT_ONCE
        if excess > 0:
            idle = [channel for channel in channels.values() if not channel.requests]
            for channel in heapq.nsmallest(excess, idle, key=lambda channel: channel.last_activity):
                channel.will_close = True


def start(
    application: Callable[..., Any],
    listener: socket.socket,
    make_forward: Callable[["HttpServer"], Forward | None] = lambda server: None,
    *,
    token: str = "",
) -> HttpServer:
    """Serve a WSGI application on a listening socket, in a new thread.

    `make_forward` returns the function for plain prediction requests, which must have `token`, if
    it is not empty.
    """
    # Its warnings do not take into account that more threads are started when needed.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    address = listener.getsockname()
    server = HttpServer(
        application,
        map={},
        _sock=listener,
        dispatcher=Pools(),
        adj=Adjustments(
            sockets=[listener],
            max_request_body_size=MAX_BODY_BYTES,  # a larger body gets 413
            connection_limit=_connection_limit(),
            channel_timeout=IDLE_TIMEOUT_SECONDS,
            recv_bytes=READ_BYTES,
            cleanup_interval=CLEANUP_INTERVAL_SECONDS,
            asyncore_use_poll=True,  # select cannot watch files above 1023
            ident="vertex-local",
        ),
        sockinfo=(listener.family, listener.type, listener.proto, address),
        bind_socket=False,
    )
    server.forward, server.token = make_forward(server), token
    server.thread = threading.Thread(target=server.run, name="http", daemon=True)
    server.thread.start()
    return server


def _connection_limit() -> int:
    """Return the maximum number of connections; raise the limit of open files to allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            logger.warning(
                "the limit of open files is %d, lower than %d: fewer connections are accepted",
                soft,
                wanted,
            )
    allowed = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - RESERVED_FILES
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, allowed))
