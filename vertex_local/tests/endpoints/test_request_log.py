"""The request log of endpoints: which requests it keeps, in which files, and how they are read."""

import json
import stat
import time

import pytest

from vertex_local.api.routes import Call
from vertex_local.endpoints import log_pages, request_log
from vertex_local.endpoints import resource as endpoints
from vertex_local.endpoints.request_log import CONFIG, RequestRecord
from vertex_local.errors import ApiError
from vertex_local.tests.support.service import deployment
from vertex_local.tests.support.waiting import wait_until

PARENT = "projects/p/locations/l"
ENDPOINT = f"{PARENT}/endpoints/5"
TABLE = "bq://project.dataset.table"

fast = pytest.mark.fast


@pytest.fixture
def local(idle_service, tmp_path):
    """Return a service without a process, with an endpoint on which something was deployed."""
    idle_service.store.insert(
        ENDPOINT, {"name": ENDPOINT, "displayName": "digits", "createTime": ""}
    )
    (tmp_path / "endpoints" / "5").mkdir(parents=True)
    return idle_service


def logged(number, **fields):
    given = {"request": json.dumps({"instances": [number]}).encode(), **fields}
    return RequestRecord(
        endpoint=ENDPOINT,
        deployed_model_id="7",
        model_version_id="2",
        arrived=1e9 + number,
        milliseconds=1.5,
        status=200,
        response=b'{"predictions": [true]}',
        **given,
    )


def read(service, **query):
    args = {"project": "p", "location": "l", "id": "5"}
    return log_pages.list_logged_requests(service, Call(args=args, query=query))


def numbers(page):
    return [one["request"]["instances"][0] for one in page["loggedRequests"]]


@fast
def test_logged_requests_are_read_newest_first(local):
    log = request_log.log_of(local)
    for number in range(3):
        log.put(logged(number))
    page = read(local)
    assert page["loggedRequests"][0] == {
        "time": "2001-09-09T01:46:42.000000Z",
        "deployedModelId": "7",
        "modelVersionId": "2",
        "status": 200,
        "milliseconds": 1.5,
        "request": {"instances": [2]},
        "response": {"predictions": [True]},
    }
    assert (numbers(page), page["numDropped"], "nextPageToken" in page) == ([2, 1, 0], 0, False)


@fast
def test_pages_neither_skip_nor_repeat_while_requests_are_logged(local):
    log = request_log.log_of(local)
    for number in range(8):
        log.put(logged(number))
    seen, token = [], ""
    for new in (100, 101, 102, 103):
        page = read(local, pageSize="2", pageToken=token)
        seen += numbers(page)
        token = page.get("nextPageToken", "")
        log.put(logged(new))
    assert (seen, token) == ([7, 6, 5, 4, 3, 2, 1, 0], "")


@fast
@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 60_000), ("MAX_REQUESTS", 30)])
def test_the_oldest_requests_are_removed_above_the_limits(local, monkeypatch, limit, value):
    monkeypatch.setattr(request_log, limit, value)
    log = request_log.log_of(local)
    for number in range(100):
        log.put(logged(number, request=b'{"instances": [%d], "x": "%s"}' % (number, b"x" * 1000)))
        log.flush()
    kept = numbers(read(local))
    assert 15 < len(kept) < 60
    assert kept == list(range(99, 99 - len(kept), -1))
    assert log.num_bytes(ENDPOINT) < 90_000


@fast
def test_bodies_that_are_not_json_are_texts(local):
    request_log.log_of(local).put(logged(1, request=b"\xff{"))
    request_log.log_of(local).put(logged(1, request=b"[NaN]"))
    assert [one["request"] for one in read(local)["loggedRequests"]] == ["[NaN]", "�{"]


@fast
def test_requests_above_the_queues_limit_are_dropped_and_counted(local, monkeypatch, caplog):
    log = request_log.log_of(local)
    monkeypatch.setattr(request_log, "MAX_QUEUED_BYTES", 10)
    log.put(logged(1))
    log.put(logged(2))
    assert (read(local)["numDropped"], numbers(read(local))) == (2, [])
    assert caplog.text.count("not logged") == 1, "once a minute"


@fast
def test_what_cannot_be_written_is_dropped_and_counted(local, caplog):
    (local.root / "endpoints" / "5").rmdir()
    log = request_log.log_of(local)
    log.put(logged(1))
    log.flush()
    assert log.num_dropped(ENDPOINT) == 1
    assert "not logged" in caplog.text


@fast
def test_an_unexpected_error_does_not_end_the_logs(local, monkeypatch, caplog):
    log = request_log.log_of(local)
    with monkeypatch.context() as patched:
        patched.setattr(request_log, "_row", lambda one: 1 / 0)
        log.put(logged(1))
        log.flush()
    log.put(logged(2))
    assert (numbers(read(local)), log.num_dropped(ENDPOINT)) == ([2], 1)
    assert "division by zero" in caplog.text


@fast
def test_a_damaged_log_is_named_with_the_remedy(local):
    path = local.root / "endpoints" / "5" / request_log.FILE_NAME
    path.write_bytes(b"no database" * 100)
    with pytest.raises(ApiError, match=f"{path} cannot be read.*remove it"):
        read(local)


@fast
def test_a_deletion_waits_for_what_is_being_written(local, monkeypatch):
    calls = []

    def row(one):
        calls.append("write")
        time.sleep(0.1)
        calls.append("written")
        return "{}", "{}", "{}"

    monkeypatch.setattr(request_log, "FLUSH_TIMEOUT_SECONDS", 0)
    monkeypatch.setattr(request_log, "_row", row)
    log = request_log.log_of(local)
    log.put(logged(1))
    wait_until(lambda: calls, "the write")
    log.forget(ENDPOINT)
    assert calls == ["write", "written"]


@fast
def test_the_log_of_an_endpoint_whose_deletion_was_interrupted_is_removed(local):
    request_log.log_of(local).put(logged(1))
    request_log.log_of(local).flush()
    endpoints.recover(local)
    assert numbers(read(local)) == [1]
    local.store.delete(ENDPOINT)
    endpoints.recover(local)
    assert not (local.root / "endpoints" / "5").exists()


@fast
@pytest.mark.parametrize("query", [{"pageSize": "x"}, {"pageToken": "x"}, {"pageToken": "9" * 19}])
def test_invalid_pages_are_refused(local, query):
    with pytest.raises(ApiError) as caught:
        read(local, **query)
    assert caught.value.status == "INVALID_ARGUMENT"


@fast
@pytest.mark.parametrize(
    ("config", "rate"),
    [
        (None, 0),
        ({"enabled": False, "samplingRate": 0.5}, 0),
        ({"enabled": True, "samplingRate": 0.5}, 0.5),
        ({"enabled": True, "samplingRate": 1, "bigqueryDestination": {"outputUri": TABLE}}, 1),
    ],
)
def test_a_valid_configuration_has_a_rate(config, rate):
    endpoint = {} if config is None else {CONFIG: config}
    assert request_log.sampling_rate(endpoint) == rate


def test_an_endpoint_logs_the_predictions_of_its_servers(service, upload):
    config = {"enabled": True, "samplingRate": 1, "bigqueryDestination": {"outputUri": TABLE}}
    body = {"displayName": "digits", CONFIG: config}
    endpoint = service.do("POST", "endpoints", body)["name"]
    address, log = f"/v1/{endpoint}:predict", f"/v1/{endpoint}/loggedRequests"
    assert service.do("GET", log) == {"loggedRequests": [], "numDropped": 0}
    deployed = deployment(upload()["model"])
    deployed = service.do("POST", f"/v1/{endpoint}:deployModel", deployed)["deployedModel"]

    right = service.do("POST", address, {"instances": [21]})
    assert service.call("POST", address, {"instances": ["x"]}).status_code == 400
    second, first = service.do("GET", log)["loggedRequests"]
    assert first["request"] == {"instances": [21]}
    assert first["response"] == {"predictions": right["predictions"]}
    assert (first["deployedModelId"], first["modelVersionId"]) == (deployed["id"], "1")
    assert (first["status"], second["status"]) == (200, 400)
    assert 0 < first["milliseconds"] < 60_000
    path = service.root / "endpoints" / endpoint.rpartition("/")[2] / request_log.FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    off = {CONFIG: {"enabled": False}}
    assert service.do("PATCH", f"/v1/{endpoint}?updateMask={CONFIG}", off)[CONFIG] == {}
    service.do("POST", address, {"instances": [22]})
    assert len(service.do("GET", log)["loggedRequests"]) == 2

    service.do("POST", f"/v1/{endpoint}:undeployModel", {"deployedModelId": deployed["id"]})
    service.do("DELETE", f"/v1/{endpoint}")
    assert not path.parent.exists()
    assert service.call("GET", log).status_code == 404
