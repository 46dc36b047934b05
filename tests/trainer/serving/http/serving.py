"""A prediction server in a thread of the test, with a function in place of the model."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from trainer.errors import InstanceError
from trainer.serving.http.application import PredictionApp
from trainer.serving.http.batching import Batcher
from trainer.serving.http.bodies import predict_requests
from trainer.serving.http.limits import ServerConfig, ServerLimits
from trainer.serving.http.server import Server

TIMEOUT_SECONDS = 30


class Echo:
    """Returns numbers, and refuses other instances."""

    def predict(self, instances: list[Any], signature: str = "") -> list[Any]:
        for index, one in enumerate(instances):
            if not isinstance(one, int | float):
                raise InstanceError(f"instance {index}: not a number")
        return instances


class Held(Echo):
    """Returns numbers once `proceed` is set; `calls` has its batches."""

    def __init__(self, *, is_held: bool = True) -> None:
        self.proceed, self.calls = threading.Event(), list[list[Any]]()
        if not is_held:
            self.proceed.set()

    def predict(self, instances: list[Any], signature: str = "") -> list[Any]:
        self.calls.append(instances)
        assert self.proceed.wait(TIMEOUT_SECONDS)
        return super().predict(instances)


class Running:
    """A running server: its port, its application, and the errors of its event loop."""

    def __init__(self, port: int) -> None:
        self.port, self.errors = port, list[dict[str, Any]]()
        self.server: Server

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_SECONDS)

    def send(self, data: bytes) -> bytes:
        """Send data on a new connection, close its sending side; return all that comes back."""
        with self.connect() as connection:
            with contextlib.suppress(OSError):  # refused before it has read everything
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    """Return what is received up to the end of the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def post(body: bytes, *headers: str, path: str = "/predict") -> bytes:
    """Return a request."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@contextlib.contextmanager
def running(limits: ServerLimits, predictor: Any = None) -> Iterator[Running]:
    """Serve at a free port, within the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = Running(listener.getsockname()[1])
    started = threading.Event()
    stop: Callable[[], None]

    async def serve() -> None:
        nonlocal stop
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda _, context: found.errors.append(context))
        stop = lambda: loop.call_soon_threadsafe(stopped.set)  # noqa: E731
        app = PredictionApp(ServerConfig(storage_uri="/m", host="127.0.0.1"), limits)
        app.batcher = Batcher(partial(predict_requests, predictor or Echo()), limits=limits)
        found.server = Server(app, limits)
        await found.server.listen(listener)
        started.set()
        await stopped.wait()
        await found.server.drain(timeout_seconds=5)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(TIMEOUT_SECONDS)
        yield found
    finally:
        stop()
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()
