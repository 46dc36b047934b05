"""The prediction server of Trainyard as a real process, with a model that needs no TensorFlow."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from vertex_local.ports import POOL

# Waits as long as the first instance says, and returns the instances.
SCRIPT = """
import sys, time, types
from trainer import serve

class Model:
    def predict(self, instances):
        time.sleep(instances[0])
        return instances

serve.load_ready_predictor = lambda uri: Model()
sys.modules["trainer.export"] = types.SimpleNamespace(InstanceError=LookupError)
sys.exit(serve.main([]))
"""
TIMEOUT_SECONDS = 20
OPEN, CLOSE = None, "close"


@pytest.fixture
def start(tmp_path):
    """Starts a server; returns its process and its port."""
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


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)


def is_healthy(port):
    connection = connect(port)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def send(connection, *instances, **headers):
    connection.request("POST", "/predict", json.dumps({"instances": instances}), headers)


def receive(connection):
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("Connection")


def test_sigterm_loses_no_request_that_has_reached_the_server(start):
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


def test_server_without_requests_ends_at_once_on_sigterm(start):
    process, port = start()
    idle = connect(port)
    idle.connect()
    process.terminate()
    assert process.wait(5) == 0


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
def test_only_on_loopback_the_host_and_origin_are_checked(start, host, headers, status):
    _, port = start(host)
    connection = connect(port)
    send(connection, 0, **headers)
    assert receive(connection) == (status, OPEN)
