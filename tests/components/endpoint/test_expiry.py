"""Endpoints that expire, on the real service."""

import pytest

from components.endpoint.ensure import ensure_endpoint
from components.endpoint.expiry import seconds_left, set_expiry
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.labels import EXPIRES_LABEL, RUN_LABEL
from components.teardown.ending import end_run

PAST = "20260101-000000"


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
    ended = {"keep_endpoint": False, "state": "SUCCEEDED", "error": ""}
    end_run(api, run="run-2", summary_path=str(path), **ended)

    names = {body["displayName"] for body in api.list_resources("endpoints")}
    assert names == {"later", "odd", "kept"}
