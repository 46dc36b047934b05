"""Health checks of a prediction server."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from vertex_local.endpoints.server_requests import get_status

pytestmark = pytest.mark.fast


def trickle(listener, data):
    """Send `data` at once, then a byte now and then until the client has gone, for at most 4 s."""
    with listener, suppress(OSError), listener.accept()[0] as connection:
        connection.recv(1000)
        connection.sendall(data)
        for _ in range(200):
            connection.sendall(b"1")
            time.sleep(0.02)


@pytest.mark.parametrize(
    "data",
    [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n"],
    ids=["head", "body"],
)
def test_the_time_limit_is_that_of_the_whole_response(data):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = threading.Thread(target=trickle, args=(listener, data))
    server.start()
    with pytest.raises(TimeoutError):
        get_status(port, "/health", timeout_seconds=0.2)
    server.join()
