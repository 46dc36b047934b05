"""2,000 hostile requests: the server neither fails nor stops nor answers 5xx."""

import json
import random
import re
import time

import pytest

from tests.trainer.serving.http.serving import TIMEOUT_SECONDS, post, read_all, running
from trainer.serving.http.limits import ServerLimits

pytestmark = pytest.mark.fast

NUM_FUZZED, NUM_PIPELINES, NUM_SLOW = 1400, 200, 180
GOOD = post(json.dumps({"instances": [1, 2.5]}).encode())
STRANGE = [
    b"GET /health HTTP/1.0\r\n\r\n",
    b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\nabc",
    b"GET http://[::1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%ff%00%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1" + b"0" * 30 + b"\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff",
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3;"
    + b"x" * 9999,
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nGET",
    b"GET /health HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(4000)) + b"\r\n",
    b"GET /" + b"a" * 400_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    post(b'{"instances": [' + b"[" * 50_000),
    post(b'{"instances": ["' + b"\\ud800" * 999 + b'"]}'),
    post(b'{"instances": [1' + b"0" * 5000 + b"]}"),
    post(b"x", "Expect: 100-continue", "Expect: everything"),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"",
]


@pytest.fixture(scope="module")
def server():
    limits = ServerLimits(read_seconds=1.0, idle_seconds=1.0, linger_seconds=1.0, connections=100)
    with running(limits) as found:
        yield found
        assert found.errors == []
        assert found.send(GOOD).endswith(b'{"predictions":[1,2.5]}'), "still serves"


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def check(received):
    found = statuses(received)
    assert all(status < 500 for status in found), received[:300]
    return found


def mutated(data, rng):
    """Return data with some bytes changed, removed, repeated or cut off."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 1:
            del changed[at : at + rng.randint(1, 8)]
        elif kind == 2:
            changed[at:at] = changed[at : at + rng.randint(1, 40)] * rng.randint(1, 4)
        elif kind == 3:
            changed[at:at] = rng.choice(
                [b"\r\n", b"\0", b":", b"{", b'"', b"\xff", b"1e999", b"NaN"]
            )
        elif rng.random() < 0.2:
            del changed[at:]
    return bytes(changed)


def test_changed_and_strange_requests(server):
    rng = random.Random(1)
    seen = set()
    for index in range(NUM_FUZZED):
        data = STRANGE[index] if index < len(STRANGE) else mutated(GOOD, rng)
        seen |= set(check(server.send(data)))
    assert {200, 400, 404, 413} - seen <= {413}


def test_pipelines_are_answered_in_order(server):
    rng = random.Random(2)
    for _ in range(NUM_PIPELINES):
        numbers = [rng.randrange(1000) for _ in range(rng.randint(1, 30))]
        good = b"".join(post(b'{"instances": [%d]}' % number) for number in numbers)
        received = server.send(good + mutated(GOOD, rng))
        answers = [int(one) for one in re.findall(rb'{"predictions":\[(\d+)\]}', received)]
        assert answers == numbers
        assert check(received)[: len(numbers)] == [200] * len(numbers)


def test_a_long_pipeline_behind_a_prediction(server):
    health = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert check(server.send(GOOD + health * 5000)) == [200] * 5001


def test_slow_clients_are_ended_and_do_not_keep_others_out(server):
    parts = [b"", b"POST /pre", GOOD[:60], GOOD[:-3], b"POST /predict HTTP/1.1\r\nA: "]
    connections = []
    try:
        for index in range(NUM_SLOW):
            connections.append(server.connect())
            connections[-1].sendall(parts[index % len(parts)])
        assert statuses(server.send(GOOD)) == [200], "beside them"
        began = time.monotonic()
        for connection in connections:
            assert set(check(read_all(connection))) <= {408}
        assert time.monotonic() - began < TIMEOUT_SECONDS
    finally:
        for connection in connections:
            connection.close()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while server.server.connections:
        assert time.monotonic() < deadline, "connections stay"
        time.sleep(0.02)
