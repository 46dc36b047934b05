"""The network between namespaces, and the model of a step's time on it."""

import itertools
import os
import subprocess
import sys
from dataclasses import astuple

import pytest

from benchmarks.network import Point, fit, predict
from benchmarks.support.network import Link, missing, network
from components.plan_training.speed import Costs

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
    ("strategy", "workers", "seconds"),
    [
        # Two workers have a core each; four share two.
        ("multi_worker_mirrored", 2, 3e-3 + 2 * 1e-4 + 2 * 5e-4 + 32e-3),
        ("multi_worker_mirrored", 4, 2 * (3e-3 + 6 * 1e-4) + 6 * 5e-4 + 48e-3),
        # Any of the workers takes a step: they do not wait for each other.
        ("parameter_server", 2, (3e-3 + 2 * 1e-4 + 2 * 5e-4 + 64e-3) / 2),
    ],
)
def test_a_steps_time_is_predicted_for_replicas_that_share_cores(strategy, workers, seconds):
    point = Point(strategy, workers, weights=1.0, latency=5e-4, bandwidth=1e9)
    costs = Costs(message=1e-4, latencies=1.0, wire=1.0, copying=0.0)
    assert predict(costs, point, alone=3e-3) == pytest.approx(seconds)


@pytest.mark.fast
def test_the_fit_finds_the_costs_of_jobs_that_follow_them(monkeypatch):
    monkeypatch.syspath_prepend(f"{sys.prefix}/bench")  # of SciPy
    true = Costs(message=2e-4, latencies=1.5, wire=1.2, copying=1e-3)
    alone = {0.1: 2e-3, 1.0: 5e-3, 10.0: 50e-3}
    values = itertools.product((2, 4), alone, (1e-4, 2e-3), (1e9, 10e9))
    points = [Point("multi_worker_mirrored", *one) for one in values]
    found = fit({one: predict(true, one, alone=alone[one.weights]) for one in points}, alone)
    assert astuple(found) == pytest.approx(astuple(true), rel=0.01)
