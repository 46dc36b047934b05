"""Reading and switching of an endpoint's request log."""

import datetime

import pytest

from components.endpoint.predict.parity import request_predictions
from components.endpoint.request_log import (
    CONFIG,
    LoggedRequest,
    build_query,
    from_row,
    read_logged,
    set_request_log,
    table_of,
)
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.errors import VertexError
from vertex_local.tests.support.service import deployment

NAME = "projects/demo/locations/us-central1/endpoints/77"


@pytest.fixture
def endpoint(service, upload, monkeypatch):
    """Return a client and an endpoint with a tiny server and no log yet."""
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    _, project, _, location = service.parent.split("/")
    endpoint = service.do("POST", "endpoints", {"displayName": "tiny"})
    body = deployment(upload()["model"], trafficSplit={"0": 100})
    service.do("POST", f"/v1/{endpoint['name']}:deployModel", body)
    return connect(project, location), endpoint["name"]


def test_requests_are_logged_and_read_newest_first(endpoint):
    api, name = endpoint
    request_predictions(api, name, [0])
    set_request_log(api, api.get(name), rate=1.0)
    for number in range(5):
        request_predictions(api, name, [number, number])
    with pytest.raises(VertexError):
        request_predictions(api, name, ["no number"])
    set_request_log(api, api.get(name), rate=0.0)
    request_predictions(api, name, [9])

    found = read_logged(api, name, last=3)

    assert [one.instances for one in found] == [["no number"], [4, 4], [3, 3]]
    assert [one.is_ok for one in found] == [False, True, True]
    assert [one["double"] for one in found[1].predictions] == [8, 8]
    [deployed] = api.get(name)["deployedModels"]
    assert {one.deployed_model_id for one in found} == {deployed["id"]}
    assert len(read_logged(api, name, last=100)) == 6


@pytest.mark.fast
@pytest.mark.parametrize(
    ("uri", "table"),
    [
        ("bq://p.d.t", "p.d.t"),
        ("bq://p.d", "p.d.request_response_logging"),
        ("bq://p", "p.logging_taxi_tips_77.request_response_logging"),
    ],
)
def test_the_table_of_vertex_ai_has_default_names(uri, table):
    config = {"enabled": True, "bigqueryDestination": {"outputUri": uri}}
    endpoint = {"name": NAME, "displayName": "taxi-tips", CONFIG: config}

    assert table_of(endpoint) == table


@pytest.mark.fast
def test_the_query_reads_the_newest_rows_of_the_endpoint():
    assert build_query("p.d.t", last=50).splitlines()[1:] == [
        "FROM `p.d.t`",
        "WHERE ENDS_WITH(@endpoint, endpoint)",
        "ORDER BY logging_time DESC",
        "LIMIT 50",
    ]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("request_payload", "response_payload"),
    [
        (['{"x": 1}', '{"x": 2}'], ["0.5", "0.25"]),
        (['{"instances": [{"x": 1}, {"x": 2}]}'], ['{"predictions": [0.5, 0.25]}']),
    ],
    ids=["a text per instance", "a text for all"],
)
def test_a_row_of_the_table_is_a_request(request_payload, response_payload):
    row = {
        "logging_time": datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC),
        "deployed_model_id": 5,
        "request_payload": request_payload,
        "response_payload": response_payload,
    }

    assert from_row(row) == LoggedRequest(
        time="2026-01-31T12:00:00+00:00",
        deployed_model_id="5",
        instances=[{"x": 1}, {"x": 2}],
        predictions=[0.5, 0.25],
    )
