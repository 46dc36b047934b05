"""Reads and writes are as many with hundreds of finished runs and versions as with a few."""

import json
import threading

import pytest

from vertex_local.api import operations
from vertex_local.api.routes import Call
from vertex_local.machine import lost_and_found
from vertex_local.models import resource as models
from vertex_local.pipelines import resource as pipelines
from vertex_local.schedules import scheduler

pytestmark = pytest.mark.fast

PARENT = "projects/p/locations/l"
SPEC = {"pipelineInfo": {"name": "train"}, "root": {"a": "x" * 20_000}}
NUM_RUNS = 300


@pytest.fixture
def service(idle_service):
    return idle_service


def add_run(store, number, *, state="SUCCEEDED", spec=SPEC, **fields):
    name = f"{PARENT}/pipelineJobs/run-{number}"
    times = {"createTime": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"}
    record = {"name": name, "state": f"PIPELINE_STATE_{state}", "pipelineSpec": spec}
    store.insert(name, record | times | fields)


@pytest.fixture
def runs(store):
    with store.atomic():
        for number in range(NUM_RUNS):
            add_run(store, number)


@pytest.fixture
def decoded(monkeypatch):
    """The texts that were decoded since the start of the test."""
    texts, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text: texts.append(text) or loads(text))
    return texts


def statements(store):
    """Return the list of statements that the store executes from now on."""
    seen = []
    with store.atomic() as connection:
        connection.set_trace_callback(seen.append)
    return seen


def page(service, **query):
    return pipelines.list_runs(service, Call({"project": "p", "location": "l"}, query))


@pytest.mark.usefixtures("runs")
def test_a_start_decodes_only_the_unfinished_runs(service, store, decoded):
    add_run(store, 1000, state="RUNNING")
    type(store)(service.root / "vertex.db").close()
    assert decoded == []
    pipelines.recover(service)
    assert store.get(f"{PARENT}/pipelineJobs/run-1000")["state"] == "PIPELINE_STATE_FAILED"
    assert len(decoded) < 10


@pytest.mark.usefixtures("runs")
def test_a_due_schedule_decodes_only_the_unfinished_runs(service, store, decoded):
    name = f"{PARENT}/schedules/5"
    for number in range(2):
        add_run(store, 1000 + number, state="PENDING", scheduleName=name)
    assert scheduler.num_active(service, {"name": name}) == 2
    assert len(decoded) == 2


@pytest.mark.usefixtures("runs")
def test_a_page_reads_its_own_records_and_the_mask_decides_about_specifications(service, store):
    seen = statements(store)
    query = {"orderBy": "create_time desc", "pageSize": "20"}
    first = page(service, readMask="name,state", **query)
    second = page(service, readMask="name,state", pageToken=first["nextPageToken"], **query)
    names = [run["name"] for run in first["pipelineJobs"] + second["pipelineJobs"]]
    assert names == [f"{PARENT}/pipelineJobs/run-{299 - number}" for number in range(40)]
    assert sum("SELECT body" in text for text in seen) == 40
    assert not any("specs" in text for text in seen)
    [whole] = page(service, pageSize="1")["pipelineJobs"]
    [part] = page(service, pageSize="1", readMask="pipelineSpec.pipelineInfo")["pipelineJobs"]
    assert whole["pipelineSpec"] == SPEC
    assert part == {"pipelineSpec": {"pipelineInfo": {"name": "train"}}}


@pytest.mark.usefixtures("runs")
def test_a_specification_is_stored_once_until_its_last_run_is_deleted(store):
    def num_specs():
        with store.atomic() as connection:
            return connection.execute("SELECT count(*) FROM specs").fetchone()[0]

    add_run(store, 1000, spec={**SPEC, "root": {}})
    assert num_specs() == 2
    assert store.with_spec(store.get(f"{PARENT}/pipelineJobs/run-7"))["pipelineSpec"] == SPEC
    with store.atomic():
        for number in range(NUM_RUNS):
            store.delete(f"{PARENT}/pipelineJobs/run-{number}")
    assert num_specs() == 1
    store.delete(f"{PARENT}/pipelineJobs/run-1000")
    assert num_specs() == 0


@pytest.mark.usefixtures("runs")
def test_a_damaged_specification_is_left_out(tmp_path, store):
    with store.atomic() as connection:
        connection.execute("UPDATE specs SET body = '{'")
    again = type(store)(tmp_path / "vertex.db")
    run = again.get(f"{PARENT}/pipelineJobs/run-7")
    again.close()
    assert "pipelineSpec" not in store.with_spec(run)


@pytest.mark.usefixtures("runs")
def test_the_file_shrinks_with_its_content(tmp_path, service, store):
    store.checkpoint()
    before = (tmp_path / "vertex.db").stat().st_size
    for number in range(NUM_RUNS):
        name = f"{PARENT}/pipelineJobs/run-{number}"
        store.delete(name)
        operations.deleted(service, name)
    operations.close(service)
    store.checkpoint()
    assert (tmp_path / "vertex.db").stat().st_size < before / 2


def test_operations_are_kept_for_a_week_while_their_resource_exists(service, store, monkeypatch):
    add_run(store, 1)
    name = f"{PARENT}/pipelineJobs/run-1"
    kept = operations.finished(service, name, "X", {}, response_type="")
    operations.deleted(service, f"{PARENT}/models/5")
    operations.close(service)
    assert store.names("operations") == [kept["name"]]
    monkeypatch.setattr(operations, "DAYS_KEPT", -1)
    operations.close(service)
    assert store.names("operations") == []


def upload(service, *, parent=""):
    labels = {"trainyard_run": "run-1"}
    model = {"displayName": "m", "containerSpec": {"imageUri": "i"}, "labels": labels}
    target = {"parentModel": parent} if parent else {"modelId": "m"}
    _, work = models.plan_upload(service, {"parent": PARENT, "model": model, **target})
    return work(threading.Event())


def test_an_upload_and_a_get_take_the_same_with_any_number_of_versions(service, store):
    def cost(work):
        seen = statements(store)
        work()
        return len(seen), round(sum(map(len, seen)), -3)

    name = upload(service)["model"]
    call = Call(args={"project": "p", "location": "l", "id": "m"})

    def costs():
        return (
            cost(lambda: upload(service, parent=name)),
            cost(lambda: models.get(service, call)),
            cost(lambda: models.list_models(service, Call({"project": "p", "location": "l"}))),
        )

    few = costs()
    for _ in range(60):
        upload(service, parent=name)
    assert costs() == few


@pytest.mark.parametrize(("damaged", "default"), [(1, "3"), (2, "1")])
def test_a_damaged_version_is_kept_aside_and_the_newest_is_the_default(service, damaged, default):
    name = upload(service)["model"]
    for _ in range(2):
        upload(service, parent=name)
    with service.store.atomic() as connection:
        statement = "UPDATE resources SET body = '{' WHERE name = ?"
        connection.execute(statement, (f"{name}/versions/{damaged}",))
    again = type(service.store)(service.root / "vertex.db")
    again.close()
    models.recover(service)
    [note] = lost_and_found.notes(service.root)
    assert f"{name}/versions/{damaged}" in note
    call = Call(args={"project": "p", "location": "l"})
    [model] = models.list_models(service, call)["models"]
    assert (model["versionId"], model["versionAliases"]) == (default, ["default"])
    assert upload(service, parent=name)["modelVersionId"] == "4"


def test_a_model_without_versions_is_kept_aside_and_the_others_are_listed(service, store):
    upload(service)
    record = {**store.get(f"{PARENT}/models/m"), "name": f"{PARENT}/models/n", "folder": "n"}
    store.insert(record["name"], record)
    models.recover(service)
    call = Call(args={"project": "p", "location": "l"})
    assert len(models.list_models(service, call)["models"]) == 1
    assert "models/n has no version" in lost_and_found.notes(service.root)[0]
