"""Several requests of one connection at once: in order, in shared batches, limited in number."""

import json
import re
import socket
import struct
import threading
from types import SimpleNamespace

import pytest

from tests.trainer.serving.http.serving import Held, post, read_all, running
from trainer.serving.http import batching
from trainer.serving.http.limits import ServerLimits
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
RESPONSE = re.compile(rb"HTTP/1\.1 (\d+) (.*?)\r\n\r\n(\{.*?\})(?=HTTP/1|$)", re.DOTALL)
RESET = struct.pack("ii", 1, 0)  # when the socket is closed


def predict(*instances, headers=()):
    return post(json.dumps({"instances": instances}).encode(), *headers)


def responses(data):
    """Return status and first prediction, or message, of each response."""
    found = []
    for status, _, body in RESPONSE.findall(data):
        content = json.loads(body)
        value = content.get("error") or content.get("predictions", ["alive"])[0]
        found.append((int(status), value))
    return found


def closing(data):
    """Return for each response whether it is said to be the last one."""
    return [b"Connection: close" in head for _, head, _ in RESPONSE.findall(data)]


def test_requests_are_answered_in_order_and_share_a_batch():
    model = Held(is_held=False)
    with running(ServerLimits(), model) as server:
        received = server.send(predict(1) + predict(2) + LIVE + predict(3, 4) + LIVE)
    assert responses(received) == [(200, 1), (200, 2), (200, "alive"), (200, 3), (200, "alive")]
    assert model.calls == [[1, 2, 3, 4]]


def test_bad_requests_in_the_middle_fail_in_their_places():
    with running(ServerLimits(body_bytes=30)) as server:
        received = server.send(
            predict(1) + predict("x") + post(b"[") + predict(*range(30)) + predict(2)
        )
    assert [status for status, _ in responses(received)] == [200, 400, 400, 413, 200]
    assert responses(received)[1] == (400, "instance 0: not a number")


def test_a_last_request_in_the_middle_ends_the_connection():
    model = Held(is_held=False)
    with running(ServerLimits(), model) as server, server.connect() as connection:
        connection.sendall(predict(1) + predict(2, headers=["Connection: close"]) + predict(3))
        received = read_all(connection)
    assert responses(received) == [(200, 1), (200, 2)]
    assert closing(received) == [False, True]
    assert model.calls == [[1, 2]]


def test_what_is_not_http_is_refused_after_the_responses_before_it():
    model = Held()
    with running(ServerLimits(), model) as server, server.connect() as connection:
        connection.sendall(predict(1))
        wait_until(lambda: model.calls)
        connection.sendall(predict(2) + b"nonsense\r\n\r\n" + predict(3))
        refused = 'serving_requests_total{route="",status="400"} 1'
        wait_until(lambda: refused in server.server.app.metrics.text({}))
        model.proceed.set()
        received = read_all(connection)
    assert [status for status, _ in responses(received)] == [200, 200, 400]
    assert closing(received) == [False, False, True]


@pytest.mark.parametrize("cut", [3, 40, -4], ids=["request line", "head", "body"])
def test_half_a_request_holds_nothing_up(cut):
    last = predict(3)
    with running(ServerLimits()) as server, server.connect() as connection:
        connection.sendall(predict(1) + predict(2) + last[:cut])
        received = b""
        while len(responses(received)) < 2:
            received += connection.recv(65536)
        connection.sendall(last[cut:])
        received += connection.recv(65536)
    assert responses(received) == [(200, 1), (200, 2), (200, 3)]


def test_half_a_request_must_be_completed_in_time():
    with running(ServerLimits(read_seconds=0.2)) as server, server.connect() as connection:
        connection.sendall(predict(1) + predict(2)[:-4])
        received = read_all(connection)
    assert [status for status, _ in responses(received)] == [200, 408]


def test_requests_that_waited_too_long_get_504_in_their_places(monkeypatch):
    now, model = [0.0], Held()
    monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with running(ServerLimits(), model) as server, server.connect() as connection:
        connection.sendall(predict(1))
        wait_until(lambda: model.calls)
        connection.sendall(predict(2) + LIVE + predict(3))
        wait_until(lambda: server.server.app.batcher.num_queued == 2)
        now[0] += ServerLimits().queued_seconds + 1
        model.proceed.set()
        received = b""
        while len(responses(received)) < 4:
            received += connection.recv(65536)
    assert [status for status, _ in responses(received)] == [200, 504, 200, 504]


def test_a_response_does_not_wait_for_the_acknowledgement_of_the_one_before():
    with running(ServerLimits()) as server, server.connect() as connection:
        wait_until(lambda: server.server.connections)
        (one,) = server.server.connections
        accepted = one.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.sendall(LIVE)


def test_more_requests_than_the_limit_wait_for_those_before_them():
    model = Held()
    with (
        running(ServerLimits(pipelined_requests=2), model) as server,
        server.connect() as connection,
    ):
        connection.sendall(b"".join(map(predict, range(1, 8))))
        wait_until(lambda: model.calls)
        (one,) = server.server.connections
        assert not one.transport.is_reading()
        model.proceed.set()
        connection.shutdown(socket.SHUT_WR)
        assert responses(read_all(connection)) == [(200, number) for number in range(1, 8)]
    assert model.calls == [[1, 2], [3, 4], [5, 6], [7]]


def test_a_client_that_reads_nothing_is_no_longer_read_and_loses_nothing():
    count, text = 100, "x" * 300_000
    large = predict(text)
    texts = SimpleNamespace(predict=lambda instances, signature="": instances)
    with running(ServerLimits(), texts) as server, server.connect() as connection:
        sender = threading.Thread(target=connection.sendall, args=(large * count,))
        sender.start()
        wait_until(lambda: server.server.connections)
        (one,) = server.server.connections
        write_buffer = one.transport.get_write_buffer_size
        wait_until(lambda: write_buffer() and not one.transport.is_reading())
        assert one.num_bytes < 3_000_000
        assert write_buffer() < 17 * len(large)
        assert sender.is_alive()
        reader = threading.Timer(0, lambda: (sender.join(), connection.shutdown(socket.SHUT_WR)))
        reader.start()
        received = read_all(connection)
    assert received.count(b"HTTP/1.1 200 OK") == count


def test_a_client_that_leaves_cancels_its_requests():
    model = Held()
    with running(ServerLimits(), model) as server:
        with server.connect() as connection:
            connection.sendall(predict(1))
            wait_until(lambda: model.calls)
            connection.sendall(predict(2) + predict(3))
            wait_until(lambda: server.server.app.batcher.num_queued == 2)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        wait_until(lambda: not server.server.connections)
        model.proceed.set()
        assert responses(server.send(predict(4))) == [(200, 4)]
    assert model.calls == [[1], [4]]
    assert not server.errors


def test_a_server_that_stops_completes_all_requests_of_a_connection():
    model = Held()
    limits = ServerLimits(pipelined_requests=2)
    with running(limits, model) as server:
        connection = server.connect()
        connection.sendall(b"".join(map(predict, range(1, 6))))
        wait_until(lambda: model.calls)

        def proceed():
            wait_until(lambda: server.server.is_draining)
            model.proceed.set()

        thread = threading.Thread(target=proceed)
        thread.start()
    thread.join()
    with connection:
        received = read_all(connection)
    assert responses(received) == [(200, number) for number in range(1, 6)]
    assert closing(received) == [False] * 4 + [True]
