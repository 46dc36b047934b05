"""The network between namespaces, and the model of a step's time on it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.network import Point, predict
from benchmarks.support.network import Link, missing, network

# Keras would import all of scikit-learn and matplotlib in the tests after these.
sys.path.remove(f"{sys.prefix}/bench")

SERVER = """
import socket, sys
listener = socket.create_server((sys.argv[1], 5000))
print("listening", flush=True)
connection, _ = listener.accept()
connection.sendall(connection.recv(1))
count = 0
while count < 1_000_000:
    count += len(connection.recv(1 << 20))
connection.sendall(b"x")
"""
CLIENT = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 5000))
began = time.perf_counter()
connection.sendall(b"a")
connection.recv(1)
print(time.perf_counter() - began)
began = time.perf_counter()
connection.sendall(bytes(1_000_000))
connection.recv(1)
print(time.perf_counter() - began)
"""
needs_root = pytest.mark.skipif(bool(missing()), reason=missing() or "")


def namespaces() -> list[str]:
    found = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if str(os.getpid()) in line]


@needs_root
@pytest.mark.timeout(60)
def test_messages_take_the_delay_and_the_rate_of_the_link():
    with network(["one", "other"], Link(delay_seconds=0.02, bits_per_second=40e6)) as machines:
        assert len(namespaces()) == 2
        one, other = machines.values()
        serve = one.command([sys.executable, "-c", SERVER, one.address])
        with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
            assert server.stdout.readline() == b"listening\n"
            client = other.command([sys.executable, "-c", CLIENT, one.address])
            done = subprocess.run(client, capture_output=True, text=True, timeout=30, check=True)
            assert server.wait(30) == 0
    there_and_back, million_bytes = map(float, done.stdout.split())
    assert there_and_back >= 0.04
    assert million_bytes >= 0.2
    assert namespaces() == []


@needs_root
def test_a_machine_reaches_no_address_of_this_one():
    with network(["one"], Link(1e-3, 1e9)) as machines:
        code = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
        command = machines["one"].command([sys.executable, "-c", code])
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert b"unreachable" in done.stderr


@needs_root
def test_nothing_is_left_when_the_block_raises():
    with pytest.raises(KeyError), network(["one"], Link(1e-3, 1e9)):
        raise KeyError
    assert namespaces() == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("strategy", "workers", "expected"),
    [
        # Computing, 2 (n - 1) messages and their delays, and 2 (n - 1) / n vectors of 4 MB.
        ("multi_worker_mirrored", 2, 3e-3 + 2 * 1e-4 + 2 * 5e-4 + 32e-3),
        ("multi_worker_mirrored", 4, 2 * 3e-3 + 6 * 1e-4 + 6 * 5e-4 + 48e-3),
        # A pull and a push; the workers do not wait for each other.
        ("parameter_server", 2, (3e-3 + 2 * 1e-4 + 2 * 5e-4 + 64e-3) / 2),
        # Four workers fill the link of the server.
        ("parameter_server", 4, 32e-3),
    ],
)
def test_a_steps_time_is_computing_messages_and_bytes(strategy, workers, expected):
    point = Point(strategy, workers, weights=1.0, delay=5e-4, rate=1e9)
    coefficients = np.array([2e-3, 1e-3, 1e-4, 1.0, 1.0, 0.0])
    assert predict(coefficients, point) == pytest.approx(expected)
