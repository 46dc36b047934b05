"""Connections: kept alive, limited in number, and never blocked by a client that does not read."""

import socket
import threading
from contextlib import ExitStack

import pytest

from tests.trainer.serving.http.serving import TIMEOUT_SECONDS, Held, post, read_all, running
from trainer.serving.http.limits import ServerLimits
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
ONE = post(b'{"instances": [1]}')


def ask(connection, data=LIVE):
    connection.sendall(data)
    return connection.recv(65536)


def test_beyond_the_limit_the_connection_that_was_idle_for_longest_is_closed():
    with running(ServerLimits(connections=2)) as server, ExitStack() as stack:
        first = stack.enter_context(server.connect())
        second = stack.enter_context(server.connect())
        for connection in (first, second, first):
            ask(connection)
        third = stack.enter_context(server.connect())
        assert ask(third).startswith(b"HTTP/1.1 200 ")
        assert read_all(second) == b""
        assert ask(first).startswith(b"HTTP/1.1 200 ")


def test_many_connections_at_once_replace_as_many():
    with running(ServerLimits(connections=3)) as server, ExitStack() as stack:
        found = [stack.enter_context(server.connect()) for _ in range(9)]
        for connection in found[-3:]:
            assert ask(connection).startswith(b"HTTP/1.1 200 ")
        for connection in found[:-3]:
            assert read_all(connection) == b""


def test_beyond_the_limit_of_busy_connections_503_says_when_to_try_again():
    predictor = Held()
    with running(ServerLimits(connections=2), predictor) as server, ExitStack() as stack:
        busy = [stack.enter_context(server.connect()) for _ in range(2)]
        for connection in busy:
            connection.sendall(ONE)
        wait_until(lambda: sum(one.is_busy for one in server.server.connections) == 2)
        received = server.send(LIVE)
        assert received.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in received
        predictor.proceed.set()
        for connection in busy:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_only_the_head_that_is_being_read_counts_for_its_limit():
    with running(ServerLimits(head_bytes=100)) as server, server.connect() as connection:
        ask(connection)
        [served] = server.server.connections
        before = served.last_active
        connection.sendall(LIVE[:10])
        wait_until(lambda: served.last_active > before)
        received = ask(connection, LIVE[10:] + 5 * LIVE + LIVE[:10])
        connection.sendall(LIVE[10:])
        connection.shutdown(socket.SHUT_WR)
        assert (received + read_all(connection)).count(b"HTTP/1.1 200 ") == 7


def test_a_client_that_waits_for_permission_to_send_the_body_gets_it():
    head, _, body = post(b'{"instances": [1]}', "Expect: 100-continue").partition(b"\r\n\r\n")
    with running(ServerLimits()) as server, server.connect() as connection:
        assert ask(connection, head + b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert ask(connection, body).startswith(b"HTTP/1.1 200 ")
        huge = b"POST / HTTP/1.1\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n"
        assert ask(connection, huge).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("size", "is_kept"), [(2_000, True), (9_000_000, False)], ids=["large", "huge"]
)
@pytest.mark.parametrize("form", ["length", "chunked"])
def test_a_too_large_body_is_413_and_only_a_far_too_large_one_ends_the_connection(
    size, is_kept, form
):
    request = post(b"x" * size)
    if form == "chunked":
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        request = head + b"%x\r\n%s\r\n0\r\n\r\n" % (size, b"x" * size)
    limits = ServerLimits(body_bytes=1_000, read_bytes=10_000)
    with running(limits) as server:
        received = server.send(request + LIVE)
        assert server.send(LIVE).startswith(b"HTTP/1.1 200 ")
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":' in received
    assert (b"HTTP/1.1 200 " in received) is is_kept
    assert (b"Connection: close" in received) is not is_kept


@pytest.mark.parametrize(
    "request_",
    [b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n", LIVE[:-2] + b"Connection: close\r\n\r\n"],
)
def test_a_connection_is_closed_if_the_client_wishes(request_):
    with running(ServerLimits()) as server, server.connect() as connection:
        connection.sendall(request_)
        assert b"\r\nConnection: close\r\n" in read_all(connection)


def test_head_has_the_length_but_no_body():
    with running(ServerLimits()) as server:
        received = server.send(LIVE.replace(b"GET", b"HEAD"))
    assert b"\r\nContent-Length: 18\r\n" in received
    assert received.endswith(b"\r\n\r\n")


def test_a_client_that_does_not_read_is_ended_and_others_continue():
    limits = ServerLimits(write_seconds=0.5)
    large = post(b'{"instances": [' + b",".join([b"1"] * 500_000) + b"]}")
    with running(limits) as server, server.connect() as connection:
        connection.settimeout(0.05)
        sender = threading.Thread(target=_send, args=(connection, large * 40))
        sender.start()
        assert server.send(LIVE).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: not server.server.connections)
        sender.join(TIMEOUT_SECONDS)


def _send(connection, data):
    view = memoryview(data)
    while view:
        try:
            view = view[connection.send(view) :]
        except TimeoutError:
            continue
        except OSError:
            return
