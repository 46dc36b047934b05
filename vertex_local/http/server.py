"""The HTTP server: waitress, with thread pools and connections that no client can use up."""

import heapq
import logging
import resource
import socket
import threading
from collections.abc import Callable
from typing import Any

from waitress.adjustments import Adjustments
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from vertex_local.http.channel import Channel

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 1024 * 1024
API_THREADS = 16
# In flight, of all endpoints; each deployed model has a limit of its own.
MAX_PREDICTIONS = 256
PREDICTION_THREADS = MAX_PREDICTIONS + 16  # those above the limit are refused at once
WAIT_THREADS = 64
# Custom methods whose requests wait for something else than this service; each has threads of its
# own, so that the others are answered meanwhile.
PREDICTION_METHODS = (":predict", ":rawPredict")
WAIT_METHODS = (":wait",)

MAX_CONNECTIONS = 2000
RESERVED_FILES = 1000  # for connections to prediction servers, logs, pipes and the database
LEAST_CONNECTIONS = 200
ACCEPTS_AT_ONCE = 50
IDLE_TIMEOUT_SECONDS = 300
HALF_OPEN_TIMEOUT_SECONDS = 20
CLEANUP_INTERVAL_SECONDS = 5


class Pool(ThreadedTaskDispatcher):  # type: ignore[misc]  # waitress has no types
    """Threads that are started when they are needed, up to a number."""

    def __init__(self, max_threads: int) -> None:
        super().__init__()
        self._max_threads = max_threads

    def add_task(self, channel: Channel) -> None:
        """Give the channel's next request to a thread."""
        if self.active_count + len(self.queue) >= len(self.threads) < self._max_threads:
            self.set_thread_count(len(self.threads) + 1)
        super().add_task(channel)


class Pools:
    """The pool of each kind of request."""

    def __init__(self) -> None:
        self._api = Pool(API_THREADS)
        self._predictions = Pool(PREDICTION_THREADS)
        self._waits = Pool(WAIT_THREADS)

    def add_task(self, channel: Channel) -> None:
        """Give the channel's next request to a thread of its kind."""
        path = getattr(channel.requests[0], "path", "")  # none where the head could not be read
        if path.endswith(PREDICTION_METHODS):
            self._predictions.add_task(channel)
        elif path.endswith(WAIT_METHODS):
            self._waits.add_task(channel)
        else:
            self._api.add_task(channel)

    def shutdown(self) -> None:
        """Do nothing: the threads end with the process."""


class HttpServer(TcpWSGIServer):  # type: ignore[misc]
    """A server that closes connections on which nothing happens, at its limit at once."""

    channel_class = Channel

    def maintenance(self, now: float) -> None:
        """Close the connections that have been idle, or half open, for too long."""
        super().maintenance(now)
        for channel in list(self.active_channels.values()):
            quiet_seconds = now - channel.last_activity
            is_half_open = _is_half_open(channel) and quiet_seconds > HALF_OPEN_TIMEOUT_SECONDS
            if is_half_open or 0 < channel.lingers_until < now:
                channel.will_close = True

    def handle_accept(self) -> None:
        """Accept what waits; above the limit, close the connections that have been quiet longest.

        Several at once: with many connections each look at all of them takes milliseconds.
        """
        channels = self.active_channels
        for _ in range(ACCEPTS_AT_ONCE):
            before = len(channels)
            super().handle_accept()
            if len(channels) == before:
                break
        # With room for the next ones: at its limit waitress would stop accepting.
        excess = len(channels) - int(self.adj.connection_limit) + 2 * ACCEPTS_AT_ONCE
        if excess > 0:
            quiet = [one for one in channels.values() if not one.requests]
            for channel in heapq.nsmallest(excess, quiet, key=lambda one: one.last_activity):
                channel.will_close = True


def start(application: Callable[..., Any], listener: socket.socket) -> HttpServer:
    """Serve the WSGI application on a listening socket, in a thread of its own."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it counts no threads to come
    address = listener.getsockname()
    server = HttpServer(
        application,
        map={},
        _sock=listener,
        dispatcher=Pools(),
        adj=Adjustments(
            sockets=[listener],
            max_request_body_size=MAX_BODY_BYTES,  # a larger one is answered with 413
            connection_limit=_connection_limit(),
            channel_timeout=IDLE_TIMEOUT_SECONDS,
            cleanup_interval=CLEANUP_INTERVAL_SECONDS,
            asyncore_use_poll=True,  # select cannot watch files above 1023
            ident="vertex-local",
        ),
        sockinfo=(listener.family, listener.type, listener.proto, address),
        bind_socket=False,
    )
    threading.Thread(target=server.run, name="http", daemon=True).start()
    return server


def _connection_limit() -> int:
    """Return how many connections there may be; raise the limit of open files for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            logger.warning("only %d open files are allowed, %d are wanted", soft, wanted)
    allowed = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - RESERVED_FILES
    return max(LEAST_CONNECTIONS, min(MAX_CONNECTIONS, allowed))


def _is_half_open(channel: Channel) -> bool:
    """Whether no request has come yet, or only a part of one."""
    never_asked = channel.last_activity == channel.creation_time
    return not channel.requests and (never_asked or channel.request is not None)
