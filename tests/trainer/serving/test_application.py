"""The prediction server's application by itself."""

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
def test_on_the_loopback_web_pages_with_names_of_their_own_are_refused(client, headers, code):
    assert client("127.0.0.1").get("/health", headers=headers).status_code == code, "503: no model"


def test_in_a_container_any_name_reaches_the_server(client):
    assert client("0.0.0.0").get("/health", headers={"Host": "10.1.2.3:8080"}).status_code == 503


@pytest.mark.parametrize("body", [b'{"inputs": [[1, 2]]}', b'{"inputs": {"a": 1}, "key": 1}'])
def test_the_old_key_of_a_request_is_named_with_what_to_write(body):
    with pytest.raises(RequestError, match=r'"inputs".*{"instances": \[\.\.\.\]}'):
        parse_instances(body)
