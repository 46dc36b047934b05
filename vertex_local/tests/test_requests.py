"""Every row of `requests.yaml` against the service."""

import pytest

from vertex_local.tests.support.request_table import ROWS, SOURCES, Place
from vertex_local.tests.support.service import container_spec, deployment, running_service


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Start a service with an endpoint, a model, and the model deployed to it."""
    with running_service(tmp_path_factory.mktemp("requests") / "vertex") as service:
        place = Place(service.session, service.url, "demo", "us-central1")
        model = {"displayName": "tiny", "containerSpec": container_spec()}
        uploaded = service.do("POST", "models:upload", {"model": model})
        endpoint = service.do("POST", "endpoints", {"displayName": "e"})["name"]
        body = deployment(uploaded["model"])
        done = service.do("POST", f"/v1/{endpoint}:deployModel", body)
        place.names["endpoint"] = endpoint.removeprefix(f"{place.parent}/")
        place.names["model"] = uploaded["model"].removeprefix(f"{place.parent}/")
        place.names["deployed"] = done["deployedModel"]["id"]
        yield place


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_service_answers_as_vertex_ai(place, row):
    assert list(row.problems(place.send(row))) == []


def test_predictions_may_be_compressed(place):
    answer = place.call("POST", "{endpoint}:predict", {"instances": [1]}, encoding="gzip")
    assert answer.content["deployedModelId"] == place.names["deployed"]


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_a_body_that_is_not_gzip_is_refused(place, encoding):
    url, fields = f"{place.url}/v1/{place.parent}/endpoints", {"Content-Encoding": encoding}
    response = place.session.post(url, data=b"{}", headers=fields, timeout=60)
    assert response.status_code == 400
    assert "not gzip" in response.json()["error"]["message"]


@pytest.mark.fast
def test_every_row_has_a_source_and_an_id_of_its_own():
    assert {row.source for row in ROWS} == set(SOURCES)
    assert len({row.id for row in ROWS}) == len(ROWS)
