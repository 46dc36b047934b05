"""The steps that find, promote and tear down, against the real service."""

import pytest

from components.endpoint.ensure import ensure_endpoint
from components.labels import RUN_LABEL
from components.model_version.registry import VersionName, find_model, list_versions, promote
from components.teardown.teardown import teardown
from components.vertex_api import EMULATOR_VARIABLE, VertexError, connect

LONG_JOB = {
    "displayName": "sleeper",
    "labels": {RUN_LABEL: "run-1"},
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "replicaCount": "1",
                "machineSpec": {"machineType": "n1-standard-4"},
                "containerSpec": {"imageUri": "i", "command": ["python", "-c"]},
            }
        ]
    },
}
LONG_JOB["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"] = ["import time; time.sleep(60)"]


@pytest.fixture
def api(service, monkeypatch):
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    _, project, _, location = service.parent.split("/")
    return connect(project, location)


@pytest.fixture
def version(upload):
    """Uploads a version of a run; answers its name."""

    def do(*, run: str, parent: str = "") -> VersionName:
        fields = {"parentModel": parent} if parent else {}
        answer = upload(labels={RUN_LABEL: run}, **fields)
        return VersionName(answer["model"].partition("@")[0], answer["modelVersionId"])

    return do


@pytest.fixture
def deploy(api):
    """Deploys a version with all traffic, as GCPC does: without a name or label of the run."""

    def do(version: VersionName, endpoint: str) -> None:
        body = {
            "deployedModel": {
                "model": version.name,
                "dedicatedResources": {"machineSpec": {"machineType": "m"}, "minReplicaCount": 1},
            },
            "trafficSplit": {"0": 100},
        }
        api.wait(api.post(f"{endpoint}:deployModel", body), timeout_seconds=60)

    return do


def aliases(api, model: str) -> dict[str, list[str]]:
    return {v["versionId"]: v.get("versionAliases", []) for v in list_versions(api, model)}


def deployed_versions(api, endpoint: str) -> list[str]:
    return [model["modelVersionId"] for model in api.get(endpoint).get("deployedModels", [])]


def test_a_model_is_found_by_its_display_name(api, version):
    assert find_model(api, "tiny") == ""

    first = version(run="run-1")

    assert find_model(api, "tiny") == first.model


def test_an_endpoint_is_made_once_and_then_reused(api):
    first = ensure_endpoint(api, "digits", run="run-1")

    assert ensure_endpoint(api, "digits", run="run-2") == first
    assert api.get(first)["labels"] == {RUN_LABEL: "run-1"}


def test_promotion_moves_the_aliases_and_takes_down_what_it_replaces(api, version, deploy):
    endpoint = ensure_endpoint(api, "digits", run="run-1")
    first = version(run="run-1")
    deploy(first, endpoint)
    promote(api, first, endpoint=endpoint)
    second = version(run="run-2", parent=first.model)
    deploy(second, endpoint)

    promote(api, second, endpoint=endpoint)

    assert aliases(api, first.model) == {"1": ["previous"], "2": ["default"]}
    assert deployed_versions(api, endpoint) == ["2"]


def test_teardown_after_a_failure_leaves_nothing_of_the_run(api, version, deploy):
    job = api.post(f"{api.parent}/customJobs", LONG_JOB)
    endpoint = ensure_endpoint(api, "digits", run="run-1")
    first = version(run="run-1")
    deploy(first, endpoint)

    teardown(api, run="run-1", succeeded=False)

    assert api.get(job["name"])["state"] == "JOB_STATE_CANCELLED"
    assert list(api.list_resources("models")) == []
    assert list(api.list_resources("endpoints")) == []


def test_teardown_after_a_failure_gives_traffic_and_default_back(api, version, deploy):
    endpoint = ensure_endpoint(api, "digits", run="run-1")
    first = version(run="run-1")
    deploy(first, endpoint)
    second = version(run="run-2", parent=first.model)
    deploy(second, endpoint)
    api.post(f"{second.name}:mergeVersionAliases", {"versionAliases": ["default"]})

    teardown(api, run="run-2", succeeded=False)

    assert aliases(api, first.model) == {"1": ["default"]}
    assert deployed_versions(api, endpoint) == ["1"]
    assert set(api.get(endpoint)["trafficSplit"].values()) == {100}


def test_teardown_after_success_keeps_the_version(api, version, deploy):
    endpoint = ensure_endpoint(api, "digits", run="run-1")
    first = version(run="run-1")
    deploy(first, endpoint)

    teardown(api, run="run-1", succeeded=True)

    assert aliases(api, first.model) == {"1": ["default"]}
    with pytest.raises(VertexError, match="NOT_FOUND"):
        api.get(endpoint)


def test_teardown_keeps_an_endpoint_that_was_asked_for(api, version, deploy):
    endpoint = ensure_endpoint(api, "digits", run="run-1")
    deploy(version(run="run-1"), endpoint)

    teardown(api, run="run-1", succeeded=True, keep_endpoint=True)

    assert deployed_versions(api, endpoint) == ["1"]


def test_teardown_twice_is_harmless(api, version):
    version(run="run-1")

    teardown(api, run="run-1", succeeded=False)
    teardown(api, run="run-1", succeeded=False)

    assert list(api.list_resources("models")) == []
