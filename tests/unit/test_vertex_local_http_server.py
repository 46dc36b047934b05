"""The HTTP server by itself, in a thread: its pools of threads, and the connections it closes."""

import contextlib
import socket
import threading
import time

import pytest

from vertex_local import http_server

DEADLINE_SECONDS = 10


@pytest.fixture
def start(monkeypatch):
    """Starts a server for a WSGI application; returns what opens connections to it."""
    monkeypatch.setattr(http_server, "CLEANUP_INTERVAL_SECONDS", 0)
    with contextlib.ExitStack() as stack:

        def do(application):
            listener = socket.create_server(("127.0.0.1", 0))
            server = http_server.start(application, listener)
            stack.callback(lambda: server.trigger.pull_trigger(server.close))

            def connect(data=b""):
                address = ("127.0.0.1", server.effective_port)
                opened = socket.create_connection(address, timeout=DEADLINE_SECONDS)
                stack.enter_context(opened)
                opened.sendall(data)
                return opened

            connect.server = server
            return connect

        yield do


def request(path):
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def hello(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"hi"]


def is_answered(connection):
    response = b""
    while not response.endswith(b"hi"):
        response += connection.recv(1000)
    return response.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("method", ["x:predict", "x:rawPredict", "x/operations/1:wait"])
def test_requests_that_wait_leave_threads_for_the_others(start, method):
    release = threading.Event()

    def application(environ, start_response):
        if ":" in environ["PATH_INFO"]:
            release.wait(DEADLINE_SECONDS)
        return hello(environ, start_response)

    connect = start(application)
    waiting = [connect(request(f"/{method}")) for _ in range(40)]
    assert is_answered(connect(request("/other")))
    release.set()
    assert all(is_answered(one) for one in waiting)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="silent"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\n", id="half a head"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", id="half a body"),
        pytest.param(request("/") + b"GET /", id="half a second request"),
    ],
)
def test_half_open_connections_are_closed(start, monkeypatch, data):
    monkeypatch.setattr(http_server, "HALF_OPEN_TIMEOUT_SECONDS", 0.2)
    connect = start(hello)
    kept = connect(request("/"))
    assert is_answered(kept)
    half_open = connect(data)
    with contextlib.suppress(ConnectionResetError):
        while half_open.recv(1000):
            pass
    kept.sendall(request("/"))
    assert is_answered(kept)


def test_above_the_limit_the_connections_that_were_quiet_longest_are_closed(start, monkeypatch):
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 2 * http_server.ACCEPTS_AT_ONCE + 10)
    monkeypatch.setattr(http_server, "LEAST_CONNECTIONS", 1)
    connect = start(hello)
    opened = [connect() for _ in range(12)]
    assert is_answered(connect(request("/")))
    assert [opened[0].recv(1), opened[1].recv(1)] == [b"", b""]
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(connect.server.active_channels) > 10:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    opened[-1].sendall(request("/"))
    assert is_answered(opened[-1])
