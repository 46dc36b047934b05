"""The WSGI application: dispatch, errors, and the console's escaping."""

import json
import math

import pytest
from werkzeug.test import Client

from vertex_local.api.routes import Route
from vertex_local.app import Application
from vertex_local.errors import failed_precondition

pytestmark = pytest.mark.fast

PARENT = "projects/p/locations/l"


@pytest.fixture
def service(idle_service):
    return idle_service


def crash(service, call):
    raise RuntimeError("secret detail")


def refuse(service, call):
    raise failed_precondition("not now")


def echo(service, call):
    return {"args": call.args, "query": call.query, "body": call.body, "parent": call.parent}


@pytest.fixture
def client(service):
    collection = "projects/<project>/locations/<location>/things"
    routes = [
        Route("POST", f"{collection}/<id>:echo", echo),
        Route("GET", f"{collection}/<id>:crash", crash),
        Route("GET", f"{collection}/<id>:refuse", refuse),
        Route("POST", "/v2/entries:list", lambda service, call: {"entries": []}),
    ]
    return Client(Application(service, routes))


def test_handler_gets_path_query_and_body(client):
    response = client.post(f"/v1/{PARENT}/things/5:echo?filter=a%3Db", json={"n": [1]})
    assert response.get_json() == {
        "args": {"project": "p", "location": "l", "id": "5"},
        "query": {"filter": "a=b"},
        "body": {"n": [1]},
        "parent": PARENT,
    }
    assert client.post("/v2/entries:list", json={}).get_json() == {"entries": []}


def test_numbers_that_are_not_finite_are_words(service):
    values = [math.nan, math.inf, -math.inf, 1.5]
    route = Route(
        "GET",
        "projects/<project>/locations/<location>/things",
        lambda service, call: {"outputs": {"n": values}},
    )
    response = Client(Application(service, [route])).get(f"/v1/{PARENT}/things")
    content = json.loads(response.data, parse_constant=pytest.fail)
    assert content == {"outputs": {"n": ["NaN", "Infinity", "-Infinity", 1.5]}}


def test_an_exception_is_logged_and_not_in_the_response(client, caplog):
    response = client.get(f"/v1/{PARENT}/things/5:crash")
    assert response.status_code == 500
    assert response.get_json()["error"]["status"] == "INTERNAL"
    assert "secret" not in response.text
    assert "secret detail" in caplog.text


def test_api_error_is_returned(client):
    response = client.get(f"/v1/{PARENT}/things/5:refuse")
    error = {"code": 400, "message": "not now", "status": "FAILED_PRECONDITION"}
    assert response.get_json() == {"error": error}


@pytest.mark.parametrize("id", ["a.b", "..", "a@b@c", "a b", "ü", "x" * 129])
def test_unsafe_id_is_refused(client, id):
    response = client.post(f"/v1/{PARENT}/things/{id}:echo")
    assert response.status_code == 400
    assert "id" in response.get_json()["error"]["message"]


def test_the_error_for_a_wrong_method_names_the_allowed_one(client):
    response = client.delete(f"/v1/{PARENT}/things/5:echo")
    assert response.status_code == 501
    assert response.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", f"/v1/{PARENT}/things/5:explode", ["things/5:explode", "POST"]),
        ("PATCH", f"/v1/{PARENT}/things/5", ["PATCH", "things/5"]),
        ("GET", f"/v1/{PARENT}/things/5/parts", ["things/5/parts"]),
        ("GET", f"/v1/{PARENT}/tensorboards?pageSize=5", ["tensorboards", "things"]),
        ("POST", f"/v1/{PARENT}:evaluate", ["things"]),
        ("POST", "/v1/projects/p/locations/l/publishers/g/models/m:count", ["publishers"]),
        ("GET", f"/v1beta1/{PARENT}/things/5:crash", ["v1 of the API", "v1beta1"]),
        ("GET", f"/ui/{PARENT}/things/5", ["/ui/"]),
    ],
)
def test_the_error_for_an_unknown_method_names_it(client, method, path, words):
    response = client.open(path, method=method)
    error = response.get_json()["error"]
    assert (response.status_code, error["code"], error["status"]) == (501, 501, "UNIMPLEMENTED")
    assert [word for word in words if word not in error["message"]] == []


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/v1", "/ui/x", "/favicon.ico"])
def test_path_outside_googles_apis_is_not_found(client, path):
    response = client.get(path)
    assert (response.status_code, response.get_json()["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"Host": "localhost:9000"}, 200),
        ({"Host": "127.0.0.1:9000", "Origin": "http://127.0.0.1:9000"}, 200),
        ({"Host": "127.0.0.1:9000", "Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "localhost.evil"}, 403),
        ({"Host": "evil@localhost"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost:80x"}, 403),
        ({"Host": "127.0.0.1.evil:9000"}, 403),
        ({"Origin": "https://evil"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_foreign_hosts_and_origins_are_refused(client, headers, code):
    assert client.post("/v2/entries:list", json={}, headers=headers).status_code == code


def test_closing_service_refuses(client, service):
    service.closing.set()
    assert client.post("/v2/entries:list", json={}).status_code == 409
