"""A deployed model's place for requests, without a process."""

import re
import threading
import time
from types import SimpleNamespace

import pytest

from vertex_local.endpoints import server_requests
from vertex_local.endpoints.deployed_model import ServingProcess
from vertex_local.endpoints.server_requests import NotAnsweredError
from vertex_local.errors import ApiError
from vertex_local.processes.launch import Launch

pytestmark = pytest.mark.fast


@pytest.fixture
def serving(tmp_path):
    def make_spec():
        raise AssertionError("nothing is started here")

    return ServingProcess(make_spec, folder=tmp_path / "7", title="Model 7", launch=Launch())


def enter(serving, *, seconds):
    """Wait, as a request does, until the server runs."""
    with serving.running(time.monotonic() + seconds):
        raise AssertionError("nothing is started here")


@pytest.fixture
def request_in_flight(serving):
    """Return a function that waits for the error of a request to a starting server."""
    errors = []

    def predict():
        try:
            enter(serving, seconds=20)
        except ApiError as error:
            errors.append(error)

    thread = threading.Thread(target=predict)
    thread.start()
    while not serving.status()["requestsInFlight"]:
        assert thread.is_alive()
        time.sleep(0.01)

    def end():
        thread.join(20)
        return errors[0]

    return end


def test_requests_that_wait_for_a_stopped_server_can_be_retried(serving, request_in_flight):
    serving.stop()
    error = request_in_flight()
    assert isinstance(error, NotAnsweredError)
    assert not error.was_sent
    assert serving.status() == {"state": "STOPPING", "requestsInFlight": 0, "restarts": 0}
    with pytest.raises(NotAnsweredError):
        enter(serving, seconds=20)


def test_the_wait_for_requests_in_flight_is_limited_and_logged(serving, caplog, monkeypatch):
    monkeypatch.setattr(serving, "_await_running", lambda deadline: None)
    with serving.running(0.0):
        serving.stop(drain_seconds=0.05)
    assert re.search(r"Model 7: 1 requests? in flight .*0\.05 s", caplog.text)


def test_a_request_fails_at_its_deadline_while_the_server_starts(serving):
    with pytest.raises(ApiError, match="Model 7") as caught:
        enter(serving, seconds=0.05)
    assert caught.value.status == "UNAVAILABLE"


def test_a_request_without_a_thread_does_not_wait_for_a_server_that_is_being_started(tmp_path):
    has_begun, may_fail = threading.Event(), threading.Event()

    def process_spec(**_):
        has_begun.set()
        may_fail.wait(20)
        raise ApiError("UNAVAILABLE", "nothing is started here")

    spec = SimpleNamespace(engine=True, process_spec=process_spec)
    serving = ServingProcess(lambda: spec, folder=tmp_path / "7", title="Model 7", launch=Launch())
    serving.keep()
    assert has_begun.wait(20)
    outcomes = []
    request = threading.Thread(target=lambda: outcomes.append(serving.begin()))
    request.start()
    request.join(5)
    was_late = request.is_alive()
    may_fail.set()
    serving.stop()
    request.join()
    assert (was_late, outcomes) == (False, [None])


@pytest.mark.parametrize(
    ("status", "code"), [(400, 400), (404, 400), (413, 413), (500, 500), (503, 503)]
)
def test_errors_of_a_prediction_server_get_googles_codes(status, code):
    assert server_requests.error_of(status, b'{"error": "why"}').code == code


@pytest.mark.parametrize("answer", [b'{"predictions": [1e999]}', b'{"predictions": ["\\ud800"]}'])
def test_a_prediction_that_is_not_strict_json_is_a_server_error(answer):
    with pytest.raises(ApiError) as error:
        server_requests.parse_predictions(answer, title="Model 7")
    assert (error.value.code, error.value.status) == (500, "INTERNAL")
