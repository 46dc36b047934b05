"""The path of a prediction request to its server: routes, kept connections, responses."""

import contextlib
import json
import queue
import random
import socket
import threading
import time
from collections import Counter

import pytest
from waitress import wasyncore

from vertex_local.api.routes import Message
from vertex_local.endpoints import server_connections
from vertex_local.endpoints.forwarding import Forwarder, predictions_of
from vertex_local.endpoints.routing import Routes
from vertex_local.endpoints.server_connections import LostError, ServerConnections
from vertex_local.errors import ApiError
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast

NAME = "projects/p/locations/l/endpoints/5"
PATH = f"/v1/{NAME}:predict"
BODY = b'{"predictions": [1]}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + BODY
CLOSE = object()


@pytest.mark.parametrize(
    "data",
    [
        BODY,
        b' {"predictions":[{"a": 1.5}], "other": 1}\n',
        '{"predictions": ["ü", "]}"]}'.encode(),
        b'{"predictions": [18446744073709551615, 0.1, 1e300, "\\ud83d\\ude00"]}',
    ],
)
def test_fields_are_added_to_the_predictions(store, data):
    store.insert(NAME, {"name": NAME, "trafficSplit": {"1": 100}, "deployedModels": deployed("1")})
    target = Routes(store).choose(PATH)
    body = json.loads(predictions_of(Message(data), target=target))
    assert body.pop("predictions") == json.loads(data)["predictions"]
    assert body["deployedModelId"] == "1"


def deployed(*ids):
    return [
        {"id": one, "model": f"m{one}", "modelVersionId": "1", "displayName": "d"} for one in ids
    ]


def split(**shares):
    def change(endpoint):
        endpoint["trafficSplit"] = {key[1:]: value for key, value in shares.items()}
        endpoint["deployedModels"] = deployed(*endpoint["trafficSplit"])

    return change


def chosen(routes):
    target = routes.choose(PATH)
    return target and target.id


def interrupted_update(store):
    with store.atomic():
        store.update(NAME, split(d3=100))
        _ = 1 / 0


def test_routes_follow_the_store(store):
    store.insert(NAME, {"name": NAME, "trafficSplit": {"1": 100}, "deployedModels": deployed("1")})
    routes = Routes(store)
    assert chosen(routes) == "1"
    store.update(NAME, split(d1=0, d2=100))
    assert chosen(routes) == "2"
    with pytest.raises(ZeroDivisionError):
        interrupted_update(store)
    assert chosen(routes) == "2", "it was rolled back"
    store.update(NAME, split(d2=0))
    assert chosen(routes) is None
    store.delete(NAME)
    assert routes.choose(PATH) is None
    store.insert("projects/p/locations/l/endpoints/5/operations/6", {"done": True})
    assert routes.choose(PATH) is None


def test_a_change_takes_effect_before_its_call_returns_in_every_thread(store):
    store.insert(NAME, {"name": NAME})
    routes = Routes(store)
    wrong = []

    def change(own):
        for _ in range(30):
            with store.atomic():
                store.update(NAME, split(**{own: 100}))
                mine = chosen(routes)  # of a commit before
                store.update(NAME, split(**{own: 100, "d9": 0}))
            wrong.extend([mine] if mine == "9" else [])

    threads = [threading.Thread(target=change, args=(f"d{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (last,) = [key for key, share in store.get(NAME)["trafficSplit"].items() if share]
    assert (chosen(routes), wrong) == (last, [])


def test_requests_are_divided_by_the_split(store):
    store.insert(NAME, {"name": NAME})
    routes = Routes(store)
    store.update(NAME, split(d1=80, d2=20, d3=0))
    random.seed(1)
    counts = Counter(chosen(routes) for _ in range(5000))
    assert set(counts) == {"1", "2"}
    assert 0.15 < counts["2"] / 5000 < 0.25


def test_predictions_of_all_endpoints_share_a_limit(idle_service):
    forwarder = Forwarder(idle_service, None)
    while forwarder.in_flight.acquire(blocking=False):
        pass
    with pytest.raises(ApiError, match="256 predictions are in flight") as caught:
        forwarder.exchange(NAME, Message(b"{}"))
    assert caught.value.status == "RESOURCE_EXHAUSTED"


class Sent:
    """A request that was sent; its outcome is the status and body, or the error."""

    def __init__(self):
        self._outcomes = queue.Queue()

    def done(self, outcome):
        self._outcomes.put(outcome)

    def outcome(self):
        outcome = self._outcomes.get(timeout=20)
        return outcome if isinstance(outcome, Exception) else (outcome.status, outcome.data)


SERVERS: list["Server"] = []  # of the test that runs


@pytest.fixture(autouse=True)
def no_server_left():
    yield
    SERVERS.clear()


class Server:
    """A server that sends the scripted parts for each request of each connection."""

    def __init__(self, *scripts):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._scripts = iter(scripts)
        self.requests = []
        self.pool = ServerConnections({}, self.listener.getsockname()[1], "/p")
        self._calls = queue.SimpleQueue()
        SERVERS.append(self)
        threading.Thread(target=self._run, daemon=True).start()
        threading.Thread(target=self._loop, daemon=True).start()

    def ask(self, *, seconds=20.0):
        sent, request = Sent(), Message(b'{"instances": [1]}', {"Content-Type": "application/json"})
        deadline = time.monotonic() + seconds
        self._calls.put(lambda: self.pool.send(request, deadline=deadline, done=sent.done))
        return sent

    def _loop(self):
        while self in SERVERS:
            while not self._calls.empty():
                self._calls.get()()
            wasyncore.poll2(0.005, self.pool.loop_map)
            time.sleep(0.005)

    def _run(self):
        for number, script in enumerate(self._scripts):
            connection, _ = self.listener.accept()
            connection.settimeout(20)
            with connection:
                for part in script:
                    if part is CLOSE:
                        break
                    self._read(connection, number)
                    for data in part if isinstance(part, list) else [part]:
                        connection.sendall(data)
                        time.sleep(0.02)
                else:
                    with contextlib.suppress(TimeoutError):  # kept beyond the test
                        while connection.recv(1000):
                            pass
        self.listener.close()

    def _read(self, connection, number):
        data = connection.recv(1000)
        if data:
            self.requests.append((number, data))


def test_a_connection_is_kept_for_the_next_requests():
    server = Server([WHOLE, [WHOLE[:9], WHOLE[9:40], WHOLE[40:]], WHOLE])
    assert [server.ask().outcome() for _ in range(3)] == [(200, BODY)] * 3
    assert [number for number, _ in server.requests] == [0, 0, 0]
    assert server.requests[0][1].startswith(b"POST /p HTTP/1.1\r\nHost: 127.0.0.1:")
    assert server.requests[0][1].endswith(b'Content-Length: 18\r\n\r\n{"instances": [1]}')


CHUNKS = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\n{"pre\r\nf\r\n'


@pytest.mark.parametrize(
    "parts",
    [
        [CHUNKS, b'dictions": [1]}\r\n0\r\nTrailer: x\r\n', b"\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", WHOLE],
        [b"HTTP/1.1 204 No Content\r\n\r\n"],
    ],
    ids=["chunked", "interim response", "no content"],
)
def test_responses_with_other_framing_are_read_and_the_connection_kept(parts):
    server = Server([parts, WHOLE])
    status, body = server.ask().outcome()
    assert (status, body) == ((204, b"") if b"204" in parts[0] else (200, BODY))
    assert server.ask().outcome() == (200, BODY)
    assert [number for number, _ in server.requests] == [0, 0]


@pytest.mark.parametrize(
    "parts",
    [
        WHOLE.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        WHOLE + b"HTTP/1.1 408 Request Timeout\r\n\r\n",
    ],
    ids=["Connection: close", "HTTP/1.0", "more than a response"],
)
def test_a_connection_that_the_server_will_close_is_not_used_again(parts):
    server = Server([parts, CLOSE], [WHOLE])
    assert [server.ask().outcome() for _ in range(2)] == [(200, BODY)] * 2
    assert [number for number, _ in server.requests] == [0, 1]


def is_lost(outcome, *, was_sent=True):
    return isinstance(outcome, LostError) and outcome.was_sent == was_sent


def test_a_response_may_end_with_its_connection():
    head = b"HTTP/1.0 200 OK\r\n\r\n"
    server = Server([[head, BODY], CLOSE], [head + BODY[:-1], CLOSE], [CLOSE])
    assert server.ask().outcome() == (200, BODY)
    for reason in ("it is incomplete", "there is none"):
        assert is_lost(server.ask().outcome()), reason


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        CHUNKS.partition(b"5;")[0] + b"-0\r\n\r\n",
    ],
    ids=["no head", "length", "chunk size"],
)
def test_a_response_that_is_not_http_is_no_response(data):
    server = Server([data], [WHOLE])
    assert is_lost(server.ask().outcome())
    assert server.ask().outcome() == (200, BODY)


def test_a_stale_connection_is_replaced():
    server = Server([WHOLE, CLOSE], [WHOLE])
    assert server.ask().outcome() == (200, BODY)
    wait_until(lambda: not server.pool.idle, "the end of the stale connection")
    assert server.ask().outcome() == (200, BODY)


def test_an_idle_connection_is_closed(monkeypatch):
    monkeypatch.setattr(server_connections, "IDLE_SECONDS", 0.1)
    server = Server([WHOLE])
    assert server.ask().outcome() == (200, BODY)
    wait_until(lambda: not server.pool.idle, "the end of the idle connection")


def test_a_request_that_is_too_late_is_ended():
    server = Server([b""])
    assert server.ask(seconds=0.1).outcome().__class__ is TimeoutError


def test_a_server_that_does_not_listen_does_not_respond():
    server = Server()
    wait_until(lambda: server.listener.fileno() < 0, "the end of the listener")
    assert is_lost(server.ask().outcome(), was_sent=False)
