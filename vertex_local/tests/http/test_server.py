"""The HTTP server by itself, in a thread: its pools of threads, and the connections it closes."""

import contextlib
import json
import socket
import threading
import time

import pytest

from vertex_local.http import server as http_server
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast

DEADLINE_SECONDS = 10


@pytest.fixture
def start(monkeypatch):
    """Start a server for a WSGI application; return a function that connects to it."""
    monkeypatch.setattr(http_server, "CLEANUP_INTERVAL_SECONDS", 0)
    with contextlib.ExitStack() as stack:

        def do(application):
            listener = socket.create_server(("127.0.0.1", 0))
            server = http_server.start(application, listener)
            stack.callback(close, server)

            def connect(data=b""):
                address = ("127.0.0.1", server.effective_port)
                opened = socket.create_connection(address, timeout=DEADLINE_SECONDS)
                stack.enter_context(opened)
                opened.sendall(data)
                return opened

            connect.server = server
            return connect

        yield do


def close(server):
    """Close a server whose clients have closed their connections.

    Its threads pull its trigger, a pipe, after each response; if `close` ran before, they and this
    thread would write to a file descriptor that is closed, or by then another file's.
    """
    pools = vars(server.task_dispatcher).values()
    wait_until(lambda: not server.active_channels, "the end of all connections")
    wait_until(lambda: not any(p.queue or p.active_count for p in pools), "idle threads")
    with server.trigger.lock:  # held until the pull, because another pull may run `close` already
        server.trigger.thunks.append(server.close)
        server.trigger.pull_trigger()


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
def test_waiting_requests_do_not_block_others(start, method):
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


def chunked(data):
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in data) + b"0\r\n\r\n"


TOO_LARGE = 300_000
LENGTH = f"Content-Length: {TOO_LARGE}\r\n"
SMUGGLED = request("/smuggled")
OVERSIZED = {
    "length": (LENGTH, b"x" * TOO_LARGE),
    "length, body to come": (LENGTH, b""),
    "length, and a request in the body": (LENGTH, SMUGGLED),
    "chunked": ("Transfer-Encoding: chunked\r\n", chunked([b"x" * 50_000] * 6)),
    "chunked, endless": ("Transfer-Encoding: chunked\r\n", chunked([b"x" * TOO_LARGE])[:-5]),
    "chunked, and a request": (
        "Transfer-Encoding: chunked\r\n",
        chunked([b"x" * TOO_LARGE]) + SMUGGLED,
    ),
    "length of 30 digits": (f"Content-Length: {'9' * 30}\r\n", b"{}"),
}


@pytest.mark.parametrize("head_and_body", OVERSIZED.values(), ids=OVERSIZED)
def test_a_too_large_body_is_refused_and_the_last_request_of_its_connection(
    start, monkeypatch, head_and_body
):
    monkeypatch.setattr(http_server, "MAX_BODY_BYTES", 200_000)
    paths = []

    def application(environ, start_response):
        paths.append(environ["PATH_INFO"])
        return hello(environ, start_response)

    head, body = head_and_body
    connection = start(application)(f"POST / HTTP/1.1\r\nHost: h\r\n{head}\r\n".encode() + body)
    received = b""
    with contextlib.suppress(ConnectionResetError):  # what the client still sent was not read
        while data := connection.recv(100_000):
            received += data
    if not body:
        error = json.loads(received.rpartition(b"\r\n\r\n")[2])["error"]
        assert (error["code"], error["status"]) == (413, "INVALID_ARGUMENT")
    assert paths == []


def test_a_body_of_the_maximum_size_is_read_and_the_connection_stays_open(start, monkeypatch):
    monkeypatch.setattr(http_server, "MAX_BODY_BYTES", 200_001)
    connect = start(hello)
    connection = connect()
    for _ in range(2):
        head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n"
        connection.sendall(head.encode() + b"x" * 200_000)
        assert is_answered(connection)


def test_above_the_limit_the_least_recently_used_connections_are_closed(start, monkeypatch):
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 2 * http_server.ACCEPTS_AT_ONCE + 10)
    monkeypatch.setattr(http_server, "MIN_CONNECTIONS", 1)
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
