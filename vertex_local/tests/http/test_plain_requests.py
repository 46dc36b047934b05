"""Plain prediction requests are forwarded without a thread; all others are the application's."""

import contextlib
import json
import socket
import threading
import time

import pytest

from vertex_local.http import server as http_server
from vertex_local.http.channel import MAX_BODY_BYTES
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast

DEADLINE_SECONDS = 10
PATH = "/v1/projects/p/locations/l/endpoints/5:predict"


class Site:
    """A server whose plain requests go to `forward`, other requests to an application.

    Both respond with the body of the request, and with their own name.
    """

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.server = http_server.start(
            self._application, self.listener, lambda server: self._forward
        )
        self.forward = self.respond
        self.opened = []

    def _forward(self, path, body, channel):
        assert path == PATH
        return self.forward(body, channel)

    def respond(self, body, channel, *, seconds=0.0):
        def respond():
            channel.respond("200 OK", b'{"forward": %b}' % body)

        self.later(respond, seconds)
        return True

    def respond_later(self, body, channel):
        return self.respond(body, channel, seconds=0.05)

    def decline_later(self, body, channel):
        self.later(channel.decline)
        return True

    def later(self, function, seconds=0.0):
        """Call a function in the loop, as a connection to a prediction server does."""
        threading.Timer(seconds, lambda: self.server.call(function)).start()

    def _application(self, environ, start_response):
        body = b'{"application": %b}' % (environ["wsgi.input"].read() or b"null")
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    def connect(self, data=b""):
        address = ("127.0.0.1", self.server.effective_port)
        opened = socket.create_connection(address, timeout=DEADLINE_SECONDS)
        self.opened.append(opened)
        opened.sendall(data)
        return opened


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(http_server, "CLEANUP_INTERVAL_SECONDS", 0)
    made = Site()
    yield made
    for one in made.opened:
        one.close()
    wait_until(lambda: not made.server.active_channels, "the end of the server's connections")


def request(body=b"1", *, path=PATH, method="POST", version="1.1", **fields):
    fields = {"Host": "127.0.0.1", "Content-Length": len(body), **fields}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value != ""]
    head = "\r\n".join([f"{method} {path} HTTP/{version}", *lines, "", ""])
    return head.encode() + body


def read(connection):
    """Return the status and the JSON body of the next response."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(1)
        assert part, "the connection was closed"
        data += part
    head = data.decode().lower()
    if head.startswith("http/1.1 100"):
        return read(connection)
    left = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    body = b""
    while len(body) < left:
        body += connection.recv(left - len(body))
    return int(head.split()[1]), json.loads(body)


def test_requests_of_a_connection_are_forwarded(site):
    connection = site.connect()
    for number in (b"1", b"2"):
        connection.sendall(request(number))
        assert read(connection) == (200, {"forward": int(number)})


def test_a_request_may_arrive_in_parts(site):
    connection = site.connect()
    data = request(b"[1, 2, 3]")
    for start in range(0, len(data), 7):
        connection.sendall(data[start : start + 7])
        time.sleep(0.001)
    assert read(connection) == (200, {"forward": [1, 2, 3]})
    connection.sendall(request(b"4"))
    assert read(connection) == (200, {"forward": 4})
    for part in (request(b"[5, 6]")[:-3], b" 6]"):
        connection.sendall(part)
        time.sleep(0.02)
    assert read(connection) == (200, {"forward": [5, 6]})


def test_responses_have_the_order_of_the_requests(site):
    site.forward = site.respond_later
    connection = site.connect(b"".join(request(b"%d" % number) for number in range(5)))
    assert [read(connection)[1]["forward"] for _ in range(5)] == list(range(5))


@pytest.mark.parametrize(
    "data",
    [
        request(method="PUT"),
        request(version="1.0", Connection="keep-alive"),
        request(path=f"{PATH}?x=1"),
        request(path=PATH.replace("predict", "explain")),
        request(path=PATH.replace("/5", "/%35")),
        request(Host="evil.example"),
        request(Origin="http://127.0.0.1"),
        request(Expect="100-continue"),
        request(b"1\r\n1\r\n0\r\n\r\n", Content_Length="", Transfer_Encoding="chunked"),
        request(Connection="close"),
    ],
    ids=lambda data: data.decode().replace("\r\n", " ")[:90],
)
def test_other_requests_are_the_applications(site, data):
    connection = site.connect(request(b"0"))
    assert read(connection) == (200, {"forward": 0})
    connection.sendall(data)
    assert read(connection) == (200, {"application": 1})


def test_plain_requests_and_others_share_a_connection(site):
    connection = site.connect()
    for _ in range(3):
        connection.sendall(request(b"1"))
        assert read(connection) == (200, {"forward": 1})
        connection.sendall(request(b"2", path="/other"))
        assert read(connection) == (200, {"application": 2})


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_declined_request_is_the_applications(site, when):
    site.forward = site.decline_later if when == "later" else lambda *_: False
    connection = site.connect(request(b"1") + request(b"2"))
    assert [read(connection)[1] for _ in range(2)] == [{"application": 1}, {"application": 2}]
    site.forward = site.respond
    connection.sendall(request(b"3"))
    assert read(connection) == (200, {"forward": 3})


def test_large_bodies_pass_also_to_a_client_that_reads_slowly(site):
    body = json.dumps(["x" * 1_400_000]).encode()
    connection = site.connect()
    connection.sendall(request(body))
    connection.sendall(request(b"2"))  # while the response to the first is being sent
    time.sleep(0.1)
    assert read(connection) == (200, {"forward": json.loads(body)})
    assert read(connection) == (200, {"forward": 2})


def test_a_body_above_the_limit_is_the_applications(site):
    body = b'"%b"' % (b"x" * MAX_BODY_BYTES)
    connection = site.connect(request(b"1"))
    assert read(connection) == (200, {"forward": 1})
    connection.sendall(request(body))
    assert "application" in read(connection)[1]


def test_a_client_that_leaves_does_not_disturb_the_others(site):
    site.forward = site.respond_later
    for _ in range(5):
        site.connect(request(b"1")).close()
    assert read(site.connect(request(b"2"))) == (200, {"forward": 2})


@pytest.mark.parametrize("forward", ["respond", "respond_later", "decline_later"])
@pytest.mark.parametrize("path", [PATH, "/other"])
def test_a_client_that_closes_its_sending_side_gets_all_responses(site, forward, path):
    site.forward = getattr(site, forward)
    requests = [request(b"1"), request(b"2", path=path), request(b"3")]
    connection = site.connect(b"".join(requests) + request(b"4")[:-1])
    connection.shutdown(socket.SHUT_WR)
    found = [read(connection) for _ in requests]
    assert [next(iter(body.values())) for _, body in found] == [1, 2, 3]
    with contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_a_large_response_reaches_a_client_that_has_closed_its_sending_side(site):
    body = json.dumps(["x" * 1_400_000]).encode()
    connection = site.connect(request(body))
    connection.shutdown(socket.SHUT_WR)
    time.sleep(0.05)
    assert read(connection) == (200, {"forward": json.loads(body)})
    assert connection.recv(1) == b""


def test_no_request_is_forwarded_before_the_response_to_the_last_is_sent(site):
    calls = []

    def respond(body, channel):
        calls.append(channel)
        site.later(lambda: channel.respond("200 OK", b" " * 20_000_000))
        return True

    site.forward = respond
    connection = site.connect(request(b"1"))
    wait_until(lambda: calls and calls[0].total_outbufs_len, "a full socket")
    connection.sendall(request(b"2"))
    for _ in range(2):
        read(site.connect(request(b"1", path="/other")))
    assert len(calls) == 1


def test_an_unexpected_error_closes_the_connection(site):
    def crash(*_):
        raise RuntimeError("surprise")

    site.forward = crash
    broken = site.connect(request(b"1"))
    with contextlib.suppress(ConnectionResetError):
        assert broken.recv(1) == b""
    site.forward = site.respond
    assert read(site.connect(request(b"1"))) == (200, {"forward": 1})
