"""The prediction server of Trainyard as a real process, with a model that needs no TensorFlow."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing

import pytest

from trainer.serving.http.limits import MAX_BODY_BYTES
from vertex_local.machine.ports import POOL

# Waits as long as the first instance says, and returns the instances.
SCRIPT = """
import sys, time
from trainer import serve

class Model:
    def predict(self, instances, signature=""):
        time.sleep(instances[0])
        return instances

serve.load_ready_predictor = lambda uri, trust: Model()
sys.exit(serve.main([]))
"""
TIMEOUT_SECONDS = 60
OPEN, CLOSE = None, "close"


@pytest.fixture
def start(tmp_path):
    """Start a server; return its process and port."""
    with ExitStack() as stack:

        def do(host="127.0.0.1"):
            (port,) = POOL.take(1)
            process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT],
                env={
                    **os.environ,
                    "AIP_STORAGE_URI": str(tmp_path),
                    "AIP_HTTP_HOST": host,
                    "AIP_HTTP_PORT": str(port),
                },
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not is_healthy(port):
                assert process.poll() is None
                assert time.monotonic() < deadline, f"not healthy within {TIMEOUT_SECONDS} s"
                time.sleep(0.02)
            return process, port

        yield do


@pytest.fixture
def connect():
    """Return a connection to a port, which is closed after the test."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(closing(_connection(port)))


def _connection(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)


def is_healthy(port):
    with closing(_connection(port)) as connection:
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False


def send(connection, *instances, **headers):
    connection.request("POST", "/predict", json.dumps({"instances": instances}), headers)


def receive(connection):
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("Connection")


def test_sigterm_loses_no_request_that_has_reached_the_server(start, connect):
    process, port = start()
    busy, kept_alive, new = connect(port), connect(port), connect(port)
    send(kept_alive, 0)
    assert receive(kept_alive) == (200, OPEN)
    send(busy, 1)
    time.sleep(0.2)  # until it is being answered
    process.send_signal(signal.SIGSTOP)
    send(kept_alive, 0.5)  # in the buffer of a socket
    send(new, 0.5)  # on a connection that only the kernel knows
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert [receive(one) for one in (busy, kept_alive, new)] == [(200, CLOSE)] * 3
    assert process.wait(TIMEOUT_SECONDS) == 0
    with pytest.raises(ConnectionRefusedError):
        connect(port).connect()


def test_an_idle_server_exits_at_once_on_sigterm(start, connect):
    process, port = start()
    idle = connect(port)
    idle.connect()
    process.terminate()
    assert process.wait(15) == 0  # well before the 20 s of a drain


HUGE = MAX_BODY_BYTES * 20


@pytest.mark.parametrize(
    ("size", "is_chunked", "connection_after"),
    [
        (MAX_BODY_BYTES + 1, False, OPEN),
        (MAX_BODY_BYTES + 1, True, OPEN),
        (HUGE, False, CLOSE),
        (HUGE, True, CLOSE),
    ],
)
def test_a_too_large_body_is_413_and_the_server_continues(
    start, connect, size, is_chunked, connection_after
):
    _, port = start()
    connection = connect(port)
    body = [b"x" * size] if is_chunked else b"x" * size
    connection.request("POST", "/predict", body, encode_chunked=is_chunked, headers={})
    response = connection.getresponse()
    assert (response.status, response.getheader("Connection")) == (413, connection_after)
    assert json.load(response)["error"]
    send(connection, 0)  # on the same connection, or on a new one
    assert receive(connection) == (200, OPEN)


def test_a_client_that_expects_continue_gets_413(start):
    _, port = start()
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as connection:
        head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {HUGE}\r\n"
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances": [NaN]}',
        b'{"instances": [1e999]}',
        b'{"instances": ["\\ud800"]}',
        b'{"instances": [0], "instances": [1]}',
        b'{"instances": ' + b"[" * 100_000,
        b"",
        b"{",
    ],
    ids=lambda body: body[:30],
)
def test_a_body_that_is_not_json_is_400(start, connect, body):
    _, port = start()
    connection = connect(port)
    connection.request("POST", "/predict", body)
    assert receive(connection) == (400, OPEN)


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("127.0.0.1", {"Host": "localhost:8080"}, 200),
        ("127.0.0.1", {"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 200),
        ("127.0.0.1", {"Host": "attacker.example"}, 403),
        ("127.0.0.1", {"Origin": "http://attacker.example"}, 403),
        ("127.0.0.1", {"Origin": "null"}, 403),
        ("0.0.0.0", {"Host": "10.128.0.2:8080", "Origin": "http://any.example"}, 200),
    ],
)
def test_only_on_loopback_the_host_and_origin_are_checked(start, connect, host, headers, status):
    _, port = start(host)
    connection = connect(port)
    send(connection, 0, **headers)
    assert receive(connection) == (status, OPEN)
