"""Serving during deployments, kills, crash loops, stuck servers and stuck clients."""

import itertools
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
import requests

from vertex_local import client
from vertex_local.tests.support.seen import host_pid
from vertex_local.tests.support.service import HEADERS, PRELOAD_KFP, deployment, running_service

WAIT_SECONDS = 90
REFUSAL = b"HTTP/1.1 429 TOO MANY REQUESTS"


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory):
    """Return a service that soon restarts its prediction servers."""
    with pytest.MonkeyPatch.context() as patch:
        module = "vertex_local.tests.support.brisk_service"
        patch.setattr(client, "SERVE", [sys.executable, "-m", module, "serve"])
        root = tmp_path_factory.mktemp("brisk") / "vertex"
        with running_service(root, *PRELOAD_KFP) as running:
            yield lambda: running


@pytest.fixture
def deploy(service, endpoint):
    """Return a function that deploys a model and returns the id of the deployed model."""

    def do(model, **fields):
        body = deployment(model, **fields)
        deployed = service.do("POST", f"/v1/{endpoint}:deployModel", body)["deployedModel"]
        return deployed["id"]

    return do


@pytest.fixture
def versions(upload):
    """Return the names of two versions of a model."""
    name = upload("one")["model"]
    upload("two", parentModel=name)
    return [f"{name}@1", f"{name}@2"]


def predict(service, endpoint, *instances):
    """Return the response to a client with its own connection."""
    url = f"{service.url}/v1/{endpoint}:predict"
    return requests.post(url, json={"instances": list(instances)}, headers=HEADERS, timeout=90)


def own_pid_of(response):
    """Return the pid, in its namespace, of the server that responded."""
    assert response.ok, response.text
    return response.json()["predictions"][0]["pid"]


def pid_of(response):
    return host_pid(own_pid_of(response))


def move(service, endpoint, split):
    service.do("PATCH", f"/v1/{endpoint}?updateMask=trafficSplit", {"trafficSplit": split})


def undeploy(service, endpoint, deployed_id):
    service.do("POST", f"/v1/{endpoint}:undeployModel", {"deployedModelId": deployed_id})


def statuses(service, endpoint):
    found = service.do("GET", f"/v1/{endpoint}/deployedModels").get("deployedModels", [])
    return {one["id"]: one for one in found}


def wait_for_status(service, endpoint, deployed_id, is_wanted):
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        status = statuses(service, endpoint)[deployed_id]
        if is_wanted(status):
            return status
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s, last seen: {status}"
        time.sleep(0.05)


class Clients:
    """Clients that send requests without pause, with a connection each, and their responses."""

    def __init__(self, send, *, count=3):
        self._send = send
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        self.responses, self.errors = [], []

    def _run(self):
        with requests.Session() as session:
            session.headers.update(HEADERS)
            while not self._stop.is_set():
                try:
                    self.responses.append(self._send(session))
                except Exception as error:
                    self.errors.append(repr(error))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    def await_responses(self, count):
        """Wait for the responses to `count` more requests."""
        wanted, deadline = len(self.responses) + count, time.monotonic() + WAIT_SECONDS
        while len(self.responses) < wanted and not self.errors:
            assert time.monotonic() < deadline, f"{len(self.responses)} of {wanted} responses"
            time.sleep(0.01)


def predicting(service, endpoint):
    """Send one request; return the argument of the server that responded."""
    bodies = itertools.cycle([{"instances": [21]}, {"instances": ["wait", 0.05]}])

    def ask(session):
        url = f"{service.url}/v1/{endpoint}:predict"
        answer = session.post(url, json=next(bodies), timeout=90)
        assert answer.status_code == 200, answer.text
        return answer.json()["predictions"][0]["argv"][0]

    return ask


@pytest.mark.timeout(180)
@pytest.mark.parametrize("turns", [("fast", 6), ("slow", 2)], ids=lambda turns: turns[0])
def test_no_request_is_lost_while_versions_take_turns(service, endpoint, deploy, upload, turns):
    argument, cycles = turns
    name = upload("one", argument)["model"]
    upload("two", argument, parentModel=name)
    old = deploy(f"{name}@1")
    with Clients(predicting(service, endpoint)) as clients:
        for cycle in range(cycles):
            split = {"0": 0, old: 100}
            new = deploy(f"{name}@{2 - cycle % 2}", trafficSplit=split)
            clients.await_responses(5)
            move(service, endpoint, {new: 100, old: 0})
            undeploy(service, endpoint, old)
            clients.await_responses(5)
            old = new
    assert not clients.errors
    assert set(clients.responses) == {"one", "two"}


def test_sdk_predicts_through_a_move_of_traffic(aiplatform, upload):
    name = upload("one")["model"]
    upload("slow", parentModel=name)  # so that the SDK has to poll the operation
    endpoint = aiplatform.Endpoint.create(display_name="digits")
    endpoint.deploy(aiplatform.Model(f"{name}@1"), traffic_percentage=100)
    (old,) = endpoint.list_models()

    def ask(_):
        return endpoint.predict(instances=[21]).model_version_id

    with Clients(ask, count=2) as clients:
        clients.await_responses(5)
        model = aiplatform.Model(f"{name}@2")
        endpoint.deploy(model, traffic_split={"0": 0, old.id: 100})
        (new,) = [one for one in endpoint.list_models() if one.id != old.id]
        assert endpoint.traffic_split == {new.id: 0, old.id: 100}
        clients.await_responses(5)
        endpoint.update(traffic_split={new.id: 100, old.id: 0})
        endpoint.undeploy(old.id)
        clients.await_responses(5)
    assert not clients.errors
    assert clients.responses[0] == "1"
    assert clients.responses[-1] == "2"


def test_undeploy_waits_for_the_requests_in_flight(service, endpoint, deploy, versions):
    old = deploy(versions[0])
    old_pid = own_pid_of(predict(service, endpoint, 1))
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(predict, service, endpoint, "wait", 1.5)
        wait_for_status(service, endpoint, old, lambda status: status["requestsInFlight"])
        deploy(versions[1], trafficSplit={"0": 100, old: 0})
        undeploy(service, endpoint, old)
        assert answer.done()
    assert own_pid_of(answer.result()) == old_pid


def test_a_request_whose_server_is_killed_is_retried(service, endpoint, deploy, versions):
    deployed = deploy(versions[0])
    old_pid = pid_of(predict(service, endpoint, 1))
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(predict, service, endpoint, "wait", 1)
        wait_for_status(service, endpoint, deployed, lambda status: status["requestsInFlight"])
        os.kill(old_pid, signal.SIGKILL)
    assert pid_of(answer.result()) != old_pid


def test_a_request_with_an_incomplete_response_is_retried(
    service, endpoint, deploy, versions, tmp_path
):
    deploy(versions[0])
    mark = tmp_path / "mark"
    mark.touch()
    answer = predict(service, endpoint, "break off", str(mark))
    assert answer.json()["predictions"] == ["whole"]
    assert not mark.exists()


def test_clients_see_no_error_while_the_server_is_killed(service, endpoint, deploy, versions):
    deployed = deploy(versions[0])
    with Clients(predicting(service, endpoint)) as clients:
        for kills in range(1, 3):
            clients.await_responses(5)
            os.kill(pid_of(predict(service, endpoint, 1)), signal.SIGKILL)
            wait_for_status(service, endpoint, deployed, lambda s, n=kills: s.get("restarts") == n)
    assert not clients.errors
    assert statuses(service, endpoint)[deployed]["state"] == "RUNNING"


def test_retries_of_a_request_that_kills_its_server_are_limited(
    service, endpoint, deploy, versions
):
    deployed = deploy(versions[0])
    error = predict(service, endpoint, "die").json()["error"]
    assert error["status"] == "UNAVAILABLE"
    assert "the model exploded" in error["message"]
    assert predict(service, endpoint, 1).ok
    # Sent up to four times; a send to a server that is ending counts but ends no other server.
    assert 1 <= statuses(service, endpoint)[deployed]["restarts"] <= 4


def test_crash_loop_is_reported_and_ends_by_itself(service, endpoint, deploy, upload, tmp_path):
    obstacle = tmp_path / "obstacle"
    deployed = deploy(upload(str(obstacle))["model"])
    pid = pid_of(predict(service, endpoint, 1))
    obstacle.touch()
    os.kill(pid, signal.SIGKILL)
    status = wait_for_status(
        service, endpoint, deployed, lambda status: status["state"] == "CRASH_LOOP"
    )
    assert "forbidden" in status["message"]
    assert status["restarts"] >= 2
    assert status["restartTime"]
    assert "crash loop" in service.call("GET", "/endpoints").text
    error = predict(service, endpoint, 1).json()["error"]
    assert error["status"] == "UNAVAILABLE"
    assert "forbidden" in error["message"]
    assert "restart" in error["message"]
    assert '<span class="sure bad">' in service.call("GET", "/").text  # its errors are counted

    obstacle.unlink()
    status = wait_for_status(
        service, endpoint, deployed, lambda status: status["state"] == "RUNNING"
    )
    assert "restartTime" not in status
    assert predict(service, endpoint, 1).ok


def test_a_server_that_fails_after_a_restart_of_the_service_is_restarted(
    own_service, endpoint, deploy, upload, tmp_path
):
    obstacle = tmp_path / "obstacle"
    deployed = deploy(upload(str(obstacle))["model"])
    own_service.stop()
    obstacle.touch()
    own_service.start()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(predict, own_service, endpoint, 1)
        wait_for_status(own_service, endpoint, deployed, lambda status: status["restarts"])
        obstacle.unlink()
    assert answer.result().ok, answer.result().text


@pytest.mark.linux("SCHED_BATCH")
def test_a_server_does_not_interrupt_the_service(service, endpoint, deploy, upload):
    deploy(upload()["model"])
    pid = pid_of(predict(service, endpoint, 1))
    threads = [int(thread) for thread in os.listdir(f"/proc/{pid}/task")]
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_BATCH}


def test_undeploying_a_crash_loop_ends_it(service, endpoint, deploy, upload, tmp_path):
    obstacle = tmp_path / "obstacle"
    deployed = deploy(upload(str(obstacle))["model"])
    pid = pid_of(predict(service, endpoint, 1))
    obstacle.touch()
    os.kill(pid, signal.SIGKILL)
    wait_for_status(service, endpoint, deployed, lambda status: status["state"] == "CRASH_LOOP")
    undeploy(service, endpoint, deployed)
    assert statuses(service, endpoint) == {}


def test_deployed_models_of_an_unknown_endpoint_are_not_found(service):
    assert service.call("GET", "endpoints/77/deployedModels").status_code == 404


@contextmanager
def stopped(pid):
    """Return a process that never responds."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def connections(service, count, data=b""):
    """Open connections to the service that send `data` and do not read."""
    address = ("127.0.0.1", int(service.url.rpartition(":")[2]))
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(count)
        ]
        for one in opened:
            one.sendall(data)
        yield opened


def prediction_request(endpoint, *instances):
    body = json.dumps({"instances": list(instances)}).encode()
    head = f"POST /v1/{endpoint}:predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def assert_responds(service, endpoint):
    for _ in range(10):
        assert requests.get(f"{service.url}/v1/{endpoint}", headers=HEADERS, timeout=60).ok


@pytest.fixture
def stuck(service, endpoint, deploy, versions):
    """Deploy a model whose server does not respond to 40 requests."""
    deployed = deploy(versions[0])
    requests_sent = prediction_request(endpoint, 1)
    with (
        stopped(pid_of(predict(service, endpoint, 1))),
        connections(service, 40, requests_sent),
    ):
        wait_for_status(
            service, endpoint, deployed, lambda status: status["requestsInFlight"] == 40
        )
        yield deployed


@pytest.mark.usefixtures("stuck")
def test_stuck_prediction_server_does_not_block_the_api(service, endpoint, versions):
    assert_responds(service, endpoint)
    other = service.do("POST", "endpoints", {"displayName": "other"})["name"]
    body = deployment(versions[1])
    service.do("POST", f"/v1/{other}:deployModel", body)
    assert predict(service, other, 1).ok


def test_too_many_predictions_in_flight_are_refused_at_once(own_service, service, endpoint, stuck):
    with connections(service, 30, prediction_request(endpoint, 1)) as more:
        refused = set()
        deadline = time.monotonic() + 20
        while len(refused) < 30 - (64 - 40):
            assert time.monotonic() < deadline, f"{len(refused)} of 30 were refused within 20 s"
            refused |= set(select.select(more, [], [], 1)[0])
        assert {one.recv(1000).partition(b"\r\n")[0] for one in refused} == {REFUSAL}
    assert statuses(service, endpoint)[stuck]["requestsInFlight"] == 64


@pytest.fixture
def many_files():
    """Allow this process more open files than the service has connections."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 4000:
        pytest.skip(f"only {limits[1]} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 4000), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


HALF_HEAD = b"POST /v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_BODY = HALF_HEAD + b"Content-Length: 9\r\n\r\n{"


@pytest.mark.parametrize(
    ("count", "data"),
    [(1200, HALF_BODY), (2500, b""), (2500, HALF_HEAD)],
    ids=["1200", "2500-nothing", "2500-head"],
)
def test_half_open_connections_do_not_block_the_api(service, endpoint, many_files, count, data):
    with connections(service, count, data):
        assert_responds(service, endpoint)


def test_waiting_for_operations_does_not_block_the_api(service, endpoint, upload):
    body = deployment(upload("unhealthy")["model"])
    operation = service.call("POST", f"/v1/{endpoint}:deployModel", body).json()
    head = f"POST /v1/{operation['name']}:wait HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connections(service, 40, head.encode()):
        assert_responds(service, endpoint)
