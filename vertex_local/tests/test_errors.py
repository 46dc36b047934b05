"""Errors in Google's form, and refused requests."""

import pytest
from google.api_core import exceptions


def error_of(response):
    body = response.json()["error"]
    assert {*body, "details"} == {"code", "message", "status", "details"}
    assert body["code"] == response.status_code
    return body


@pytest.mark.parametrize(
    ("method", "path", "code", "status"),
    [
        ("GET", "/v1/nothing", 404, "NOT_FOUND"),
        ("GET", "operations/5", 404, "NOT_FOUND"),
        ("DELETE", "models/5", 404, "NOT_FOUND"),
        ("POST", "endpoints/5:predict", 404, "NOT_FOUND"),
        ("PUT", "models", 501, "UNIMPLEMENTED"),
        ("GET", "models/a.b", 400, "INVALID_ARGUMENT"),
        ("GET", "models/..%2f..%2fetc", 501, "UNIMPLEMENTED"),
        ("GET", "models/%2e%2e", 400, "INVALID_ARGUMENT"),
        ("GET", "models?pageToken=x", 400, "INVALID_ARGUMENT"),
        ("POST", "models:upload", 400, "INVALID_ARGUMENT"),
        ("POST", "endpoints", 400, "INVALID_ARGUMENT"),
    ],
)
def test_error_has_googles_form(service, method, path, code, status):
    error = error_of(service.call(method, path))
    assert (error["code"], error["status"]) == (code, status)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not valid JSON"),
        (b'{"model": NaN}', "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"[" * 100_000, "depth limit"),
        (b'{"model": ' * 900 + b"1" + b"}" * 900, '"model"'),
        (b'{"model": {"metadata": ' + b'{"a": ' * 300 + b"1" + b"}" * 302, "nested too deeply"),
        (b'{"model": Infinity}', "not valid JSON"),
        (b'{"model": {"metadata": 1e999}}', "infinity"),
        (b'{"model": {"metadata": -1e999}}', "infinity"),
        (b'{"model": {"metadata": ' + b"9" * 400 + b"}}", "infinity"),
        (b'{"model": {"metadata": ' + b"9" * 9000 + b"}}", "infinity"),
        (b'{"model": {"displayName": "\\ud800"}}', "surrogate"),
        (b'{"model": {"displayName": "\xed\xa0\x80"}}', "not valid JSON"),
        ('{"model": {}}'.encode("utf-16"), "not valid JSON"),
        (b'\xef\xbb\xbf{"model": {}}', "not valid JSON"),
        (b'{"model": {"displayname": "x"}}', '"displayname"'),
        (b'{"model": {"displayName": 5}}', "'model.display_name' (TYPE_STRING), 5"),
        (b'{"model": {"labels": ["x"]}}', "labels"),
    ],
)
def test_the_error_names_the_problem_of_the_body(service, body, message):
    response = service.session.post(
        f"{service.url}/v1/{service.parent}/models:upload", data=body, timeout=60
    )
    assert response.status_code == 400
    assert message in error_of(response)["message"]


def test_the_sdk_names_the_id_that_exists(service, aiplatform):
    aiplatform.Endpoint.create(display_name="one", endpoint_id="one")
    with pytest.raises(exceptions.Conflict, match="endpoints/one"):
        aiplatform.Endpoint.create(display_name="one", endpoint_id="one")


def test_operations_can_be_listed_read_awaited_and_deleted(service):
    operation = service.call("POST", "endpoints", {"displayName": "x"}).json()
    assert operation["done"]
    assert operation["metadata"]["genericMetadata"]["createTime"].endswith("Z")
    name = operation["name"]
    resource = name.partition("/operations/")[0]
    assert service.do("GET", f"/v1/{resource}/operations") == {"operations": [operation]}
    assert service.call("POST", f"/v1/{name}:wait", {"timeout": "1s"}).json() == operation
    assert service.call("DELETE", f"/v1/{name}").json() == {}
    assert service.call("GET", f"/v1/{name}").status_code == 404
