"""Every row of `requests.yaml` against the service, and the recorded answers of Vertex AI."""

import dataclasses
import re

import pytest

from vertex_local.tests.support import record_requests
from vertex_local.tests.support.request_table import ROWS, SOURCES, Place, Row
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


@pytest.mark.parametrize("kind", ["schedules", "operations"])
def test_a_list_without_a_read_mask_refuses_one(place, kind):
    answer = place.call("GET", f"{kind}?readMask=name")
    assert (answer.code, "readMask" in answer.message) == (400, True)


@pytest.fixture(scope="module")
def answers(place):
    """Record the service's answers as those of a project."""
    recorder = Place(place.session, place.url, "recorded", "us-central1")
    kinds = ("customJobs", "endpoints", "models", "hyperparameterTuningJobs")
    said = []
    answers = record_requests.record(recorder, said.append)
    assert [line for line in said if not line.endswith(": as expected")] == []
    left = [recorder.call("GET", kind).content for kind in kinds]
    assert left == [{kind: []} for kind in kinds]
    return answers


def test_recorded_answers_are_compared(answers, tmp_path):
    record_requests.write(answers, tmp_path / "a.json", project="recorded")
    recorded = record_requests.read(tmp_path / "a.json")
    assert record_requests.differences(recorded, answers) == []
    recorded["fields"] = dataclasses.replace(recorded["fields"], code=400)
    [difference] = record_requests.differences(recorded, answers)
    assert difference.startswith("fields: Vertex AI 400")


@pytest.mark.parametrize("path", sorted(record_requests.RECORDED.glob("*.json")), ids=str)
def test_the_service_answers_as_vertex_ai_did(answers, path):
    assert record_requests.differences(record_requests.read(path), answers) == []


def test_what_vertex_ai_takes_is_removed(place, monkeypatch):
    """A job that starts, although the table has it refused."""
    recorder = Place(place.session, place.url, "lenient", "us-central1")
    created = []
    monkeypatch.setattr(record_requests, "POLL_SECONDS", 0.05)
    row = Row("taken", "POST customJobs", {"displayName": "taken"}, 400, "", "labels")
    record_requests.remove_taken(recorder, row, recorder.send(row), created)
    [name] = created
    assert "endTime" in recorder.call("GET", name).content


@pytest.mark.fast
def test_the_cost_is_said():
    assert re.search(r"at most \$\d+\.\d\d", record_requests.cost())


@pytest.mark.fast
def test_every_row_has_a_source_and_an_id_of_its_own():
    assert {row.source for row in ROWS} == set(SOURCES)
    assert len({row.id for row in ROWS}) == len(ROWS)
