"""The ring of replicas over TCP, with a thread for each replica."""

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.processes.replicas import free_ports
from trainer.strategies.ring import Ring, listen
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast


class TimedOutError(Exception):
    """Raised by the check of `connect`."""


def until(seconds=10.0):
    deadline = time.monotonic() + seconds

    def check():
        if time.monotonic() > deadline:
            raise TimedOutError

    return check


def addresses_of(count):
    return {f"worker/{rank}": f"127.0.0.1:{port}" for rank, port in enumerate(free_ports(count))}


@pytest.fixture
def connect():
    rings = []

    def make(count, addresses=None):
        addresses = addresses or addresses_of(count)
        made = [Ring(addresses, name) for name in addresses]
        rings.extend(made)
        together(made, lambda ring: ring.connect(until()))
        return made

    yield make
    for ring in rings:
        ring.close()


def together(rings, call):
    with ThreadPoolExecutor(len(rings)) as pool:
        return list(pool.map(call, rings))


@pytest.mark.parametrize(
    ("count", "size"), [(2, 0), (3, 0), (5, 1), (3, 3), (2, 1000), (5, 1000), (3, 2_000_000)]
)
def test_all_replicas_get_the_same_sum(connect, count, size):
    random = np.random.default_rng(0)
    vectors = [random.normal(size=size).astype(np.float32) for _ in range(count)]
    kept = [vector.copy() for vector in vectors]

    sums = together(connect(count), lambda ring: ring.add(vectors[ring.rank]))

    assert {total.tobytes() for total in sums} == {sums[0].tobytes()}
    assert np.allclose(sums[0], np.sum(vectors, axis=0), atol=1e-5)
    assert all(map(np.array_equal, kept, vectors))


def test_sums_follow_each_other_and_keep_every_bit_of_integers(connect):
    rings = connect(3)
    large = np.array([2**31 - 1, -(2**31), 7], np.int32)

    def add_many(ring):
        shared = ring.add(large if ring.rank == 0 else np.zeros_like(large))
        return [shared.tolist(), *(int(ring.add(np.array([n]))[0]) for n in range(50))]

    assert together(rings, add_many) == [[large.tolist(), *range(0, 150, 3)]] * 3


@pytest.mark.parametrize("counts", [[1, 1], [2, 0], [0, 3, 1], [0, 0, 0]], ids=str)
def test_rows_are_gathered_in_the_order_of_ranks(connect, counts):
    rows = [np.full((count, 2), rank, np.float32) for rank, count in enumerate(counts)]
    found = together(connect(len(counts)), lambda ring: ring.gather(rows[ring.rank]))
    for gathered in found:
        assert gathered.tolist() == np.concatenate(rows).tolist()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"trnyard1\0\0\0\1\0\0\0\3"])
def test_other_connections_are_closed(sent):
    addresses = addresses_of(2)
    rings = [Ring(addresses, name) for name in addresses]
    for address in addresses.values():
        host, port = address.split(":")
        with (
            socket.create_connection((host, int(port)), timeout=10) as other,
            contextlib.suppress(OSError),  # reset, because what was sent is not read
        ):
            other.sendall(sent)
            other.shutdown(socket.SHUT_WR)
            assert other.recv(10) == b""
    together(rings, lambda ring: ring.connect(until()))
    sums = together(rings, lambda ring: ring.add(np.ones(3)).tolist())
    assert sums == [[2.0, 2.0, 2.0]] * 2
    for ring in rings:
        ring.close()


@pytest.mark.parametrize("count", [2, 3])
def test_the_end_of_a_neighbour_is_an_error_with_its_name(connect, count):
    *others, last = connect(count)
    last.close()

    def add(ring):
        with pytest.raises(ConnectionError) as raised:
            [ring.add(np.ones(1_000_000)) for _ in range(3)]
        ring.close()  # as its process would end
        return str(raised.value)

    for message in together(others, add):
        assert message.startswith("worker/")
        assert "127.0.0.1:" in message
    if count == 2:
        assert message.startswith(f"worker/{last.rank} ")


def test_a_replica_that_was_restarted_waits_until_the_others_are(connect):
    addresses = addresses_of(2)
    first, second = connect(2, addresses)
    second.close()
    restarted = Ring(addresses, "worker/1")
    with pytest.raises(TimedOutError):
        restarted.connect(until(0.5))
    first.close()
    again = Ring(addresses, "worker/0")
    together([again, restarted], lambda ring: ring.connect(until()))
    assert together([again, restarted], lambda ring: ring.add(np.ones(1))[0]) == [2.0, 2.0]
    for ring in (again, restarted):
        ring.close()


def test_a_closed_ring_leaves_its_port_and_no_thread(connect):
    before, addresses = threading.active_count(), addresses_of(2)
    for ring in connect(2, addresses):
        ring.close()
    wait_until(lambda: threading.active_count() <= before, "the ends of the threads")
    for address in addresses.values():
        host, port = address.split(":")
        socket.create_server((host, int(port))).close()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("worker-1", "0.0.0.0")],
)
def test_a_ring_of_one_host_listens_on_loopback_only(host, expected):
    [port] = free_ports(1)
    with listen(f"{host}:{port}") as listener:
        assert listener.getsockname() == (expected, port)
