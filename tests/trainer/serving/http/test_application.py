"""Routes of the prediction server, without connections and without a model."""

import errno
import io
import json
import sys

import pytest

from trainer.serving.http.application import PredictionApp
from trainer.serving.http.bodies import parse_instances
from trainer.serving.http.limits import ServerConfig, ServerLimits
from trainer.serving.http.messages import Request, RequestError

pytestmark = pytest.mark.fast


def make_app(**settings):
    return PredictionApp(ServerConfig(storage_uri="/model", **settings), ServerLimits())


@pytest.fixture
def app():
    """An application without a model that listens on this machine only."""
    return make_app(host="127.0.0.1")


def ask(app, path, *, method="GET", host="localhost", **headers):
    fields = {name.encode(): value.encode() for name, value in {"host": host, **headers}.items()}
    found = []
    app.handle(Request(method=method, path=path, headers=fields), found.append)
    [response] = found
    return response


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "127.0.0.1:9000"}, 503),
        ({"host": "localhost"}, 503),
        ({"host": "localhost:9000", "origin": "http://localhost:9000"}, 503),
        ({"host": "localhost:9000", "origin": "http://localhost:1"}, 403),
        ({"host": "localhost:9000", "origin": "null"}, 403),
        ({"host": "localhost.evil"}, 403),
        ({"host": "evil@localhost"}, 403),
        ({"host": ""}, 403),
    ],
)
def test_on_loopback_requests_of_web_pages_are_refused(app, headers, code):
    assert ask(app, "/health", **headers).status == code, "503: no model"


def test_in_a_container_any_host_name_is_accepted():
    app = make_app()
    assert ask(app, "/health", host="10.1.2.3:8080").status == 503


def test_without_a_model_the_server_is_alive_and_not_ready(app):
    health = ask(app, "/health")
    assert (health.status, health.headers) == (503, {"Retry-After": "1"})
    assert ask(app, "/predict", method="POST").status == 503
    assert ask(app, "/livez").status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/predict", 405),
        ("POST", "/health", 405),
        ("HEAD", "/livez", 200),
        ("GET", "/", 404),
    ],
)
def test_routes_have_one_method(app, method, path, status):
    assert ask(app, path, method=method).status == status


def test_metrics_count_requests_by_route_and_status(app):
    for path in ("/health", "/health", "/a", "/b"):
        ask(app, path)
    lines = ask(app, "/metrics").body.decode().splitlines()
    assert 'serving_requests_total{route="/health",status="503"} 2' in lines
    assert 'serving_requests_total{route="",status="404"} 2' in lines
    assert "serving_ready 0" in lines
    assert 'serving_predict_seconds_bucket{le="+Inf"} 0' in lines


def test_the_access_log_is_opt_in_and_has_no_bodies(app, capsys):
    ask(app, "/health")
    assert capsys.readouterr().out == ""
    ask(
        make_app(access_log="json"),
        "/",
    )
    line = json.loads(capsys.readouterr().out)
    assert (line["method"], line["path"], line["status"]) == ("GET", "/", 404)
    assert set(line) == {
        "time",
        "method",
        "path",
        "status",
        "milliseconds",
        "request_bytes",
        "response_bytes",
        "instances",
    }


class Queue:
    """Takes the jobs of predictions, and predicts none."""

    def __init__(self):
        self.jobs = []
        self.submit = self.jobs.append


def test_a_waiting_request_counts_as_the_memory_of_its_content(app):
    app.batcher = queue = Queue()
    body = b'{"instances": [1]}'
    request = Request(method="POST", path="/predict", headers={b"host": b"localhost"}, body=body)
    app.handle(request, print)
    [job] = queue.jobs
    assert job.num_bytes == 8 * len(body)
    assert not job.request.body


class FullDisk(io.StringIO):
    """A file that no line can be written to."""

    def flush(self):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_without_an_access_log_requests_still_get_responses(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stdout", FullDisk())
    app = make_app(access_log="json")
    assert [ask(app, path).status for path in ("/livez", "/health")] == [200, 503]
    [warning] = caplog.messages
    assert "access log, lines are lost: No space left" in warning


@pytest.mark.parametrize("body", [b'{"inputs": [[1, 2]]}', b'{"inputs": {"a": 1}, "key": 1}'])
def test_the_error_for_an_old_request_shows_the_new_format(body):
    with pytest.raises(RequestError, match=r'"inputs".*{"instances": \[\.\.\.\]}'):
        parse_instances(body)
