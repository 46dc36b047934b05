"""The prediction server of Trainyard as a real process, with a model that needs no TensorFlow."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing

import pytest

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


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 403), ("0.0.0.0", 200)])
def test_the_host_of_a_request_is_checked_only_on_loopback(start, connect, host, status):
    _, port = start(host)
    connection = connect(port)
    send(connection, 0, Host="10.128.0.2:8080")
    assert receive(connection) == (status, OPEN)
