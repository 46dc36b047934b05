"""A service with injected faults, and its list of operations."""

import re

import pytest
import requests

from vertex_local.client import LocalService
from vertex_local.tests.support.service import running_service

FAULTS = "GET:any=0.2;POST+DELETE:503=0.2,reset=0.2;late-seconds=0.05;seed=5"


@pytest.fixture
def bad_service(tmp_path):
    """A service that fails four changes in ten, half of them after their execution."""
    with running_service(tmp_path / "bad", "--faults", FAULTS) as running:
        yield running


def faults_logged(service) -> list[str]:
    return re.findall(r"fault \d+: ([^:]+):", (service.root / "serve.log").read_text())


def test_a_reset_closes_the_connection_without_a_response(tmp_path):
    with running_service(tmp_path / "vertex", "--faults", "POST:reset=1") as service:
        for _ in range(10):
            with pytest.raises(requests.ConnectionError, match="reset"):
                service.call("POST", "endpoints", {"displayName": "e"})
        made = service.do("GET", "endpoints").get("endpoints", [])
        assert 0 < len(made) < 10, "some were carried out before the connection ended"
        assert sorted(set(faults_logged(service))) == ["reset", "reset after"]


def test_a_service_with_faults_is_detected(bad_service, monkeypatch):
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", bad_service.url.removeprefix("http://"))
    for _ in range(20):
        LocalService(bad_service.root).join()


def test_a_location_lists_the_operations_of_all_its_resources(service):
    names = [service.do("POST", "endpoints", {"displayName": "e"})["name"] for _ in range(2)]
    listed = service.do("GET", "operations")["operations"]
    assert [one["name"].rpartition("/operations/")[0] for one in listed] == names
    since = listed[1]["metadata"]["genericMetadata"]["createTime"]
    found = service.do("GET", f'operations?filter=create_time>="{since}"')["operations"]
    assert found == listed[1:]
    assert service.do("GET", f"/v1/{names[0]}/operations")["operations"] == listed[:1]
