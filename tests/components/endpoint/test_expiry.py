"""Endpoints that expire, on the real service."""

import pytest
import yaml
from kfp import compiler, dsl

from components.endpoint.ensure import ensure_endpoint, find_endpoint
from components.endpoint.expiry import seconds_left, set_expiry
from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi, connect
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import EXPIRES_LABEL, RUN_LABEL
from components.teardown.ending import end_run

PAST = "20260101-000000"
ENDED = {"keep_endpoint": False, "state": "SUCCEEDED", "error": ""}


@dsl.component(install_kfp_package=False, base_image="python:3.11")
def wait(name: str):
    import time

    time.sleep(120)


@dsl.pipeline(name="deploys")
def deploys(endpoint_name: str = "busy"):
    wait(name=endpoint_name)


@pytest.fixture
def api(service, monkeypatch):
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    _, project, _, location = service.parent.split("/")
    return connect(project, location)


def endpoint(api, name="trial", **labels):
    created = ensure_endpoint(api, name, run="run-1")
    labels = {RUN_LABEL: "run-1", **labels}
    return api.patch(f"{created['name']}?updateMask=labels", {"labels": labels})


@pytest.mark.parametrize(
    ("labels", "after", "served_before", "hours"),
    [
        ({}, "8h", False, 8),
        ({EXPIRES_LABEL: PAST}, "2d", True, 48),
        ({EXPIRES_LABEL: PAST}, "", True, None),
        ({}, "8h", True, None),
    ],
    ids=["new", "anew", "stays from now on", "served before without an expiry"],
)
def test_the_last_release_decides_when_an_endpoint_expires(
    api, labels, after, served_before, hours
):
    before = endpoint(api, **labels)
    set_expiry(api, before, after, served_before=served_before)

    now = api.get(before["name"])
    left = seconds_left(now)
    assert now["labels"][RUN_LABEL] == "run-1"
    assert left is None if hours is None else left == pytest.approx(hours * 3600, abs=120)


def test_the_teardown_of_any_run_deletes_the_endpoints_that_have_expired(api, tmp_path):
    endpoint(api, "expired", **{EXPIRES_LABEL: PAST})
    endpoint(api, "later", **{EXPIRES_LABEL: "29990101-000000"})
    endpoint(api, "odd", **{EXPIRES_LABEL: "tomorrow"})
    endpoint(api, "kept")
    path = tmp_path / "run-2" / "summary.json"
    end_run(api, run="run-2", summary_path=str(path), **ENDED)

    names = {body["displayName"] for body in api.list_resources("endpoints")}
    assert names == {"later", "odd", "kept"}


def test_an_endpoint_that_another_run_may_deploy_to_is_left(api, tmp_path):
    endpoint(api, "busy", **{EXPIRES_LABEL: PAST})
    endpoint(api, "idle", **{EXPIRES_LABEL: PAST})
    compiler.Compiler().compile(deploys, str(tmp_path / "p.yaml"))
    job = {
        "pipelineSpec": yaml.safe_load((tmp_path / "p.yaml").read_text()),
        "runtimeConfig": {"gcsOutputDirectory": str(tmp_path / "root")},
    }
    run = api.post(f"{api.parent}/pipelineJobs?pipelineJobId=run-3", job)["name"]
    path = str(tmp_path / "root" / "run-2" / "summary.json")
    end_run(api, run="run-2", summary_path=path, **ENDED)
    assert (find_endpoint(api, "idle"), bool(find_endpoint(api, "busy"))) == (None, True)
    end_run(api, run="run-3", summary_path=path, **ENDED)
    assert find_endpoint(api, "busy") is None
    api.post(f"{run}:cancel", {})


def test_no_run_finds_an_endpoint_that_is_being_deleted(api, tmp_path, monkeypatch):
    name = endpoint(api, "trial", **{EXPIRES_LABEL: PAST})["name"]
    path = str(tmp_path / "run-2" / "summary.json")
    error = VertexError(code=400, status="FAILED_PRECONDITION", message="it has deployed models")

    def refuse(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(VertexApi, "delete", refuse)
        result = end_run(api, run="run-2", summary_path=path, **ENDED)
    assert "the expired endpoint trial remains: " in result["warnings"]
    assert (api.get(name)["displayName"], find_endpoint(api, "trial")) == ("trial (expired)", None)
    end_run(api, run="run-2", summary_path=path, **ENDED)
    assert api.find(name) is None
