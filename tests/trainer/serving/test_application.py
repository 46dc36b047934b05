"""The prediction server's WSGI application."""

import pytest
from werkzeug.test import Client

from trainer.serve import PredictionApp, RequestError, parse_environ, parse_instances

pytestmark = pytest.mark.fast


@pytest.fixture
def client():
    def make(host: str) -> Client:
        environ = {"AIP_STORAGE_URI": "/model", "AIP_HTTP_HOST": host}
        return Client(PredictionApp(parse_environ(environ)))

    return make


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "127.0.0.1:9000"}, 503),
        ({"Host": "localhost"}, 503),
        ({"Host": "localhost:9000", "Origin": "http://localhost:9000"}, 503),
        ({"Host": "localhost:9000", "Origin": "http://localhost:1"}, 403),
        ({"Host": "localhost:9000", "Origin": "null"}, 403),
        ({"Host": "localhost.evil"}, 403),
        ({"Host": "evil@localhost"}, 403),
    ],
)
def test_on_loopback_requests_of_web_pages_are_refused(client, headers, code):
    assert client("127.0.0.1").get("/health", headers=headers).status_code == code, "503: no model"


def test_in_a_container_any_host_name_is_accepted(client):
    assert client("0.0.0.0").get("/health", headers={"Host": "10.1.2.3:8080"}).status_code == 503


@pytest.mark.parametrize("body", [b'{"inputs": [[1, 2]]}', b'{"inputs": {"a": 1}, "key": 1}'])
def test_the_error_for_an_old_request_shows_the_new_format(body):
    with pytest.raises(RequestError, match=r'"inputs".*{"instances": \[\.\.\.\]}'):
        parse_instances(body)
