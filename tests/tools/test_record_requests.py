"""What `make record` sends, costs, keeps and removes, with a service in place of Vertex AI."""

import dataclasses
import re

import pytest

from tools import record_requests
from vertex_local.tests.support.request_table import Place, Row
from vertex_local.tests.support.service import running_service


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Start a service; return a function that returns a project of it."""
    with running_service(tmp_path_factory.mktemp("requests") / "vertex") as service:
        yield lambda name: Place(service.session, service.url, name, "us-central1")


@pytest.fixture(scope="module")
def answers(project):
    """Record the service's answers as those of a project, which has nothing of them afterwards."""
    kinds = ("customJobs", "endpoints", "models", "hyperparameterTuningJobs")
    place, said = project("recorded"), []
    answers = record_requests.record(place, said.append)
    assert [line for line in said if not line.endswith(": as expected")] == []
    left = [place.call("GET", kind).content for kind in kinds]
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


def test_what_vertex_ai_takes_is_removed(project, monkeypatch):
    """A job that starts, although the table has it refused."""
    place, created = project("lenient"), []
    monkeypatch.setattr(record_requests, "POLL_SECONDS", 0.05)
    row = Row("taken", "POST customJobs", {"displayName": "taken"}, 400, "", "labels")
    record_requests.remove_taken(place, row, place.send(row), created)
    [name] = created
    assert "endTime" in place.call("GET", name).content


@pytest.mark.fast
def test_the_cost_is_said():
    assert re.search(r"at most \$\d+\.\d\d", record_requests.cost())
