"""The REST client against a server with transient failures."""

import http.server
import io
import json
import logging
import math
import socket
import struct
import threading
import time
import uuid
from dataclasses import dataclass, field, replace

import pytest
import requests

from components.shared.vertex import retries
from components.shared.vertex.api import VertexApi, connect, finished
from components.shared.vertex.creations import create_labelled
from components.shared.vertex.errors import VertexError
from pipelines.runs import request as vertex
from pipelines.schedules import differences as schedules
from pipelines.schedules.plan import Wanted
from vertex_local.tests.support.http_server import Handler, running

pytestmark = pytest.mark.fast

PARENT = "projects/demo/locations/local"
THING = f"{PARENT}/things/5"
TIMEOUT_SECONDS = 0.2
# Failures after which the client cannot know whether the request was carried out.
LOST = ["503", "reset", "silence"]
AMBIGUOUS = [*(f"{kind} after" for kind in LOST), *LOST]
ALL = ["429", *AMBIGUOUS]


@dataclass
class Cloud:
    """Resources by name, and faults for the next requests with a method in `fails_on`."""

    faults: list[str] = field(default_factory=list)
    fails_on: tuple[str, ...] = ("GET", "POST", "PATCH", "DELETE")
    resources: dict[str, dict] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    released: threading.Event = field(default_factory=threading.Event)

    def num(self, method: str, part: str = "") -> int:
        return sum(one == method and part in path for one, path in self.requests)

    def carry_out(self, method: str, path: str, query: str, body: dict) -> tuple[int, dict]:  # noqa: PLR0911
        name, _, verb = path.removeprefix("/v1/").partition(":")
        if method == "GET" and name.rpartition("/")[2] in ("customJobs", "schedules"):
            return 200, {name.rpartition("/")[2]: list(self.resources.values())}
        if method == "POST" and not verb:
            name = f"{name}/{query.partition('=')[2] or uuid.uuid4().hex}"
            if name in self.resources:
                return refusal(409, "ALREADY_EXISTS")
            self.resources[name] = {"name": name, "state": "ACTIVE", **body}
            return 200, self.resources[name]
        if verb == "undeployModel":
            gone = self.resources.pop(body["deployedModelId"], None)
            return (200, {"done": True}) if gone else refusal(404, "NOT_FOUND")
        if verb in ("predict", "cancel", "mergeVersionAliases"):
            return 200, {"predictions": [1]}
        if name not in self.resources:
            return refusal(404, "NOT_FOUND")
        if method == "DELETE":
            del self.resources[name]
            return 200, {"done": True, "response": {}}
        if verb == "pause" and self.resources[name]["state"] != "ACTIVE":
            return refusal(400, "FAILED_PRECONDITION")
        self.resources[name].update(body, **({"state": "PAUSED"} if verb else {}))
        return 200, self.resources[name]


def refusal(code: int, status: str) -> tuple[int, dict]:
    return code, {"error": {"code": code, "status": status, "message": "why"}}


class CloudServer(http.server.ThreadingHTTPServer):
    cloud: Cloud

    def handle_error(self, *_: object) -> None:
        """Ignore errors: resets are intended."""


class CloudHandler(Handler):
    server: CloudServer

    def _serve(self) -> None:
        cloud, data = self.server.cloud, self.body()
        path, _, query = self.path.partition("?")
        cloud.requests.append((self.command, path))
        fault = ""
        if self.command in cloud.fails_on and cloud.faults:
            fault = cloud.faults.pop(0)
        kind, _, moment = fault.partition(" ")
        code, answer = 0, {}
        if not kind or moment == "after":
            code, answer = cloud.carry_out(self.command, path, query, json.loads(data or b"{}"))
        if kind == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
        elif kind == "silence":
            cloud.released.wait(10)
            self.close_connection = True
        elif kind:
            self.respond(*jsoned(refusal(int(kind), "UNAVAILABLE")))
        else:
            self.respond(*jsoned((code, answer)))

    def end_headers(self) -> None:
        for name, value in self.server.cloud.headers.items():
            self.send_header(name, value)
        super().end_headers()

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815


def jsoned(answer: tuple[int, dict]) -> tuple[int, bytes]:
    return answer[0], json.dumps(answer[1]).encode()


@pytest.fixture
def cloud():
    server = CloudServer(("127.0.0.1", 0), CloudHandler)
    server.cloud = Cloud()
    with running(server):
        server.cloud.url = f"http://127.0.0.1:{server.server_port}"
        yield server.cloud
        server.cloud.released.set()


@pytest.fixture
def api(cloud, monkeypatch, request):
    """Return a client with a long timeout, unless the test needs a request to time out."""
    is_silent = "silence" in request.node.name
    monkeypatch.setattr(retries, "_backoff", lambda state: 0.01)
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", cloud.url.removeprefix("http://"))
    return replace(connect("demo", "local"), timeout_seconds=TIMEOUT_SECONDS if is_silent else 30)


def create(api: VertexApi) -> dict:
    """Create a resource with a chosen id, as an operation."""
    things = f"{PARENT}/things"
    return api.post(f"{things}?thingId=5", {"x": 1}, find=lambda: finished(api.find(f"{things}/5")))


CHANGES = ("patch", "delete", "predict", "cancel", "undeployModel")


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        *(("get", fault) for fault in (*ALL, "502", "504")),
        *((method, fault) for method in CHANGES for fault in ("503 after", "reset")),
    ],
)
def test_safe_requests_are_retried_after_every_transient_failure(api, cloud, method, fault):
    cloud.resources = {THING: {"name": THING}, "7": {"id": "7"}}
    cloud.faults = [fault, fault]
    calls = {
        "get": lambda: api.get(THING),
        "patch": lambda: api.patch(f"{THING}?updateMask=x", {"x": 1}),
        "delete": lambda: api.wait(api.delete(THING), timeout_seconds=1),
        "predict": lambda: api.post(f"{THING}:predict", {}),
        "cancel": lambda: api.post(f"{THING}:cancel", {}),
        "undeployModel": lambda: api.post(f"{THING}:undeployModel", {"deployedModelId": "7"}),
    }

    answer = calls[method]()

    # A machine under load may take longer for an answer than a silent test waits.
    assert len(cloud.requests) == 3 or ("silence" in fault and len(cloud.requests) > 3)
    if method in ("get", "patch"):
        assert answer["name"] == THING
    assert (THING in cloud.resources) is (method != "delete")
    assert ("7" in cloud.resources) is (method != "undeployModel")


@pytest.mark.parametrize("fault", ALL)
def test_a_creation_with_an_id_is_retried_and_creates_one_resource(api, cloud, fault):
    cloud.faults = [fault, fault]
    cloud.fails_on = ("POST",)

    answer = create(api)

    assert list(cloud.resources) == [THING]
    assert answer.get("response", answer)["name"] == THING
    assert cloud.num("POST") <= 3 or "silence" in fault


@pytest.mark.parametrize("fault", ["429", "503 after", "reset"])
@pytest.mark.parametrize("kind", ["pipelineJobs", "customJobs", "schedules"])
def test_runs_jobs_and_schedules_are_created_once(api, cloud, monkeypatch, kind, fault):
    cloud.faults = [fault]
    cloud.fails_on = ("POST",)
    monkeypatch.setattr(schedules, "ours", lambda api: list(api.list_resources("schedules")))
    wanted = Wanted(body={"displayName": "n"}, is_paused=False, catch_up=False)
    replaced = {"name": f"{PARENT}/schedules/1", "state": "COMPLETED"}
    cloud.resources = {replaced["name"]: replaced} if kind == "schedules" else {}
    change = schedules.Change(
        action="change", name="n", detail="", wanted=wanted, existing=replaced
    )
    calls = {
        "pipelineJobs": lambda: vertex.create_run(api, {}, run="r"),
        "customJobs": lambda: create_labelled(api, "customJobs", {}),
        "schedules": lambda: schedules.apply_change(api, change),
    }

    calls[kind]()

    assert len(cloud.resources.keys() - {replaced["name"]}) == 1
    assert replaced["name"] not in cloud.resources


def test_a_schedule_is_paused_once(api, cloud):
    cloud.resources = {THING: {"name": THING, "state": "ACTIVE"}}
    cloud.faults = ["reset after"]

    schedules.pause(api, {"name": THING})

    assert cloud.resources[THING]["state"] == "PAUSED"
    assert cloud.num("POST") == 1


def test_an_id_that_exists_already_is_an_error(api, cloud):
    cloud.resources = {THING: {"name": THING}}
    with pytest.raises(VertexError, match="ALREADY_EXISTS"):
        create(api)
    assert len(cloud.requests) == 1


@pytest.mark.parametrize("fault", AMBIGUOUS)
def test_a_creation_without_an_id_is_not_retried_if_it_may_be_done(api, cloud, fault):
    cloud.faults = [fault]
    with pytest.raises(VertexError, match="may have been carried out"):
        api.post(f"{PARENT}/things", {})
    assert cloud.num("POST") <= 1


def test_a_creation_without_an_id_is_retried_if_it_was_not_done(api, cloud):
    cloud.faults = ["429"] * 3
    api.post(f"{PARENT}/things", {})
    assert (cloud.num("POST"), len(cloud.resources)) == (4, 1)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("429", "UNAVAILABLE (429): why"),
        ("reset", "UNAVAILABLE (503): "),
        ("silence", "DEADLINE_EXCEEDED (504): "),
    ],
)
def test_the_last_error_is_one_line_with_request_attempts_and_reason(
    api, cloud, caplog, fault, reason
):
    cloud.faults = [fault] * 100

    with pytest.raises(VertexError) as caught:
        api.get(THING)

    text = str(caught.value)
    assert reason in text
    assert f"GET {THING} failed after {retries.MAX_ATTEMPTS} attempts in " in text
    assert "\n" not in text
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == retries.MAX_ATTEMPTS - 1
    assert f"GET {THING}" in warnings[0].message
    assert "attempt 2 follows" in warnings[0].message


def test_an_internal_error_is_transient_for_reads_only(api, cloud):
    cloud.resources = {THING: {"name": THING}}
    cloud.faults = ["500", "500"]
    assert api.get(THING)["name"] == THING
    cloud.faults = ["500"]
    with pytest.raises(VertexError, match="500"):
        api.patch(f"{THING}?updateMask=x", {"x": 1})
    assert cloud.num("PATCH") == 1


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409])
def test_permanent_errors_are_raised_at_once(api, cloud, code):
    cloud.faults = [str(code)]
    with pytest.raises(VertexError) as caught:
        api.get(THING)
    assert (caught.value.code, caught.value.message) == (code, "why")
    assert len(cloud.requests) == 1


@pytest.fixture
def slept(monkeypatch):
    """The seconds between attempts, which pass at once; the sleep of other threads is real."""
    slept = []
    thread, sleep = threading.get_ident(), time.sleep

    def sleep_here(seconds):
        (slept.append if threading.get_ident() == thread else sleep)(seconds)

    monkeypatch.setattr("tenacity.nap.time.sleep", sleep_here)
    monkeypatch.setattr("tenacity.time.monotonic", lambda: sum(slept))
    return slept


def test_retry_after_is_obeyed(api, cloud, slept):
    cloud.resources = {THING: {"name": THING}}
    cloud.faults = ["429"]
    cloud.headers = {"Retry-After": "7"}
    api.get(THING)
    assert slept == [7]


EXCEEDED = VertexError(code=429, status="S", message="quota", is_transient=True)


def test_retries_last_longer_than_a_quota_of_a_minute_needs_and_are_bounded(slept, monkeypatch):
    monkeypatch.setattr(retries.random, "uniform", lambda least, longest: least)

    def call() -> float:
        if sum(slept) < until:
            raise EXCEEDED
        return sum(slept)

    until = 60
    assert 60 < retries.retry(call, name="GET x") < retries.RETRY_TIMEOUT_SECONDS
    slept.clear()
    until = math.inf
    monkeypatch.setattr(EXCEEDED, "retry_after_seconds", 60.0)
    with pytest.raises(VertexError, match="failed after 3 attempts"):
        retries.retry(call, name="GET x")
    assert slept == [60, 60]


def test_delays_grow_and_are_random(slept):
    def call() -> None:
        raise EXCEEDED

    rounds = []
    for _ in range(50):
        with pytest.raises(VertexError):
            retries.retry(call, name="GET x")
        rounds.append(slept[:])
        slept.clear()
    first, fifth, last = ([delays[at] for delays in rounds] for at in (0, 4, -1))
    assert max(first) <= retries.FIRST_DELAY_SECONDS
    assert 4 < max(fifth) <= 16 * retries.FIRST_DELAY_SECONDS
    assert retries.MAX_DELAY_SECONDS / 2 <= min(last) < max(last) <= retries.MAX_DELAY_SECONDS
    assert len(set(first)) > 40


def test_a_stopped_emulator_is_an_error_at_once(api, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", f"127.0.0.1:{port}")
    monkeypatch.setattr(retries, "_backoff", lambda state: pytest.fail("it is retried"))
    with pytest.raises(VertexError, match=r"http://127\.0\.0\.1.*stopped\?"):
        connect("demo", "local").get(THING)


def test_on_vertex_ai_a_refused_connection_is_retried(api, monkeypatch):
    session = requests.Session()
    session.trust_env = False
    cloudy = replace(api, base_url="https://127.0.0.1:9", session=session)
    with pytest.raises(VertexError, match=f"failed after {retries.MAX_ATTEMPTS} attempts"):
        cloudy.get(THING)


def test_a_failed_token_request_is_retried(monkeypatch):
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import TransportError

    failures = ["no route", "no route"]

    class Credentials(AnonymousCredentials):
        def before_request(self, *_: object) -> None:
            if failures:
                raise TransportError(failures.pop())

    class Answering(requests.adapters.BaseAdapter):
        def send(self, request, **_):
            response = requests.Response()
            response.status_code, response.raw = 200, io.BytesIO(b'{"name": "things/5"}')
            return response

        def close(self) -> None:
            """Close nothing."""

    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    monkeypatch.setattr(retries, "_backoff", lambda state: 0)
    monkeypatch.setattr(google.auth, "default", lambda **_: (Credentials(), "demo"))
    api = connect("demo", "us-central1")
    api.session.mount("https://", Answering())

    assert api.post("things", {})["name"] == "things/5"

    failures.extend(["no route"] * 100)
    with pytest.raises(VertexError, match=r"cannot connect.*no access token.*no route"):
        api.get("things/5")


def test_a_response_that_is_not_json_is_an_error(api, cloud, monkeypatch):
    monkeypatch.setattr(
        CloudHandler, "respond", lambda self, code, body: Handler.respond(self, 200, b"<html>")
    )
    with pytest.raises(VertexError, match="UNKNOWN"):
        api.get(THING)


class Operation:
    """An operation that is done at the `num_calls`-th request; `:wait` may be unimplemented."""

    def __init__(self, monkeypatch, *, num_calls: int, can_wait: bool = True) -> None:
        self.requests: list[str] = []

        def carry_out(cloud, method, path, query, body):
            self.requests.append(f"{method} {path.rpartition('/')[2]} {query}".strip())
            if ":wait" in path and not can_wait:
                return refusal(501, "UNIMPLEMENTED")
            is_done = len(self.requests) >= num_calls
            name = path.removeprefix("/v1/").removesuffix(":wait")
            return 200, {"name": name, "done": is_done, "response": {"x": 1} if is_done else {}}

        monkeypatch.setattr(Cloud, "carry_out", carry_out)


def test_an_operation_is_awaited_in_one_request(api, cloud, monkeypatch):
    operation = Operation(monkeypatch, num_calls=1)
    assert api.wait({"name": "operations/1"}, timeout_seconds=60) == {"x": 1}
    assert operation.requests == ["POST 1:wait timeout=20.0s"]


def test_an_operation_is_polled_without_a_wait_method(api, cloud, monkeypatch):
    operation = Operation(monkeypatch, num_calls=4, can_wait=False)
    assert api.wait({"name": "operations/1"}, timeout_seconds=60) == {"x": 1}
    assert operation.requests == ["POST 1:wait timeout=20.0s", "GET 1", "GET 1", "GET 1"]


def test_waiting_for_an_operation_times_out(api, cloud, monkeypatch):
    Operation(monkeypatch, num_calls=1000)
    with pytest.raises(TimeoutError, match=r"operations/1.*0 s"):
        api.wait({"name": "operations/1"}, timeout_seconds=0.4)


def test_the_error_of_an_operation_is_raised(api):
    failed = {"name": "o", "done": True, "error": {"code": 9, "message": "no"}}
    with pytest.raises(VertexError, match=r"OPERATION_FAILED \(9\): no"):
        api.wait(failed, timeout_seconds=1)
