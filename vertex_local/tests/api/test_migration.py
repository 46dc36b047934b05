"""Databases of schema 2, in which records of models and runs had all that is now apart."""

import json
import os
import random
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from vertex_local.api.database import opening
from vertex_local.api.database.store import SCHEMA, Store
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.machine import lost_and_found
from vertex_local.models import resource as models

PARENT = "projects/p/locations/l"
MOMENT = "2026-11-20T12:00:00Z"
SPEC = {"pipelineInfo": {"name": "train"}, "root": {"dag": {"tasks": {"a": "x" * 50_000}}}}
NUM_KILLS = 12


def model(number, *, num_versions=3):
    versions = [
        {
            "versionId": str(version),
            "versionCreateTime": MOMENT,
            "versionAliases": {1: ["default", "golden"], 2: ["next"]}.get(version, []),
            "labels": {"odd": str(version % 2)},
        }
        for version in range(1, num_versions + 1)
    ]
    name = f"{PARENT}/models/{number}"
    record = {"name": name, "folder": str(number), "displayName": f"m{number}", "labels": {}}
    times = {"createTime": MOMENT, "updateTime": MOMENT}
    return {**record, **times, "lastVersion": num_versions, "versions": versions}


def run(number):
    name, state = f"{PARENT}/pipelineJobs/run-{number}", "PIPELINE_STATE_SUCCEEDED"
    return {"name": name, "state": state, "createTime": MOMENT, "pipelineSpec": SPEC}


def write_old(path, *records):
    """Write a database of schema 2; its tables for lists would be made again."""
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(f"PRAGMA journal_mode = WAL; BEGIN; {SCHEMA}")
        rows = [
            (name := record["name"], name.rpartition("/")[0], json.dumps(record), MOMENT, MOMENT)
            for record in records
        ]
        connection.executemany(
            "INSERT INTO resources (name, collection, body, created, updated) "
            "VALUES (?, ?, ?, ?, ?)",
            rows,
        )
        connection.execute("COMMIT")
        connection.execute(f"PRAGMA application_id = {opening.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "root" / "vertex.db"
    write_old(path, *map(model, range(20)), *map(run, range(60)))
    return path


def versions_of(service, number, **query):
    call = Call(args={"project": "p", "location": "l", "id": str(number)}, query=query)
    return models.list_versions(service, call)["models"]


def check(store, root):
    """Check that all models and runs are as they were."""
    service = Service(root=root, store=store, url="")
    for number in range(20):
        shown = models.resolve(service, f"{PARENT}/models/{number}")
        assert (shown["versionId"], shown["versionAliases"]) == ("1", ["default", "golden"])
        assert models.resolve(service, f"{PARENT}/models/{number}@next")["versionId"] == "2"
        assert [one["versionId"] for one in versions_of(service, number)] == ["1", "2", "3"]
    assert [store.with_spec(one) for one in store.list_kind("pipelineJobs")] == [
        run(number) for number in range(60)
    ]
    with store.atomic() as connection:
        for table, count in (("specs", 1), ("resources", 140), ("listed", 140)):
            found = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
            assert found == [(count,)], table


@pytest.mark.fast
def test_models_and_runs_of_an_earlier_version_are_the_same_and_take_less_space(path):
    size = path.stat().st_size
    for _ in range(2):  # the second start has nothing to convert
        store = Store(path)
        check(store, path.parent)
        store.checkpoint()
        store.close()
    assert path.stat().st_size < size / 5
    assert lost_and_found.notes(path.parent) == []


@pytest.mark.fast
def test_a_database_of_schema_4_gets_an_index_and_keeps_its_records(path):
    Store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("DROP INDEX listed_by_schedule; PRAGMA user_version = 4")
    store = Store(path)
    check(store, path.parent)
    index = "SELECT count(*) FROM sqlite_master WHERE name = 'listed_by_schedule'"
    with store.atomic() as connection:
        assert connection.execute(index).fetchall() == [(1,)]
    store.close()


@pytest.mark.fast
def test_labels_of_the_default_version_and_of_others_are_still_filtered(path):
    store = Store(path)
    service = Service(root=path.parent, store=store, url="")
    call = Call(args={"project": "p", "location": "l"}, query={"filter": "labels.odd=1"})
    assert len(models.list_models(service, call)["models"]) == 20
    assert [one["versionId"] for one in versions_of(service, 5, filter="labels.odd=0")] == ["2"]
    store.close()


@pytest.mark.fast
@pytest.mark.parametrize("versions", [[], [{}], 7, [{"versionId": "1", "versionAliases": ["x"]}]])
def test_a_damaged_model_of_an_earlier_version_is_kept_aside_and_the_others_are_not(path, versions):
    damaged = {**model(7), "versions": versions}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        statement = "UPDATE resources SET body = ? WHERE name = ?"
        connection.execute(statement, (json.dumps(damaged), damaged["name"]))
    store = Store(path)
    assert len(store.names("models")) == 19
    assert len(store.names("versions")) == 19 * 3
    store.close()
    [note] = lost_and_found.notes(path.parent)
    assert json.loads(Path(note.partition("it is kept as ")[2]).read_bytes()) == damaged


@pytest.mark.timeout(240)
def test_a_service_killed_during_the_conversion_loses_nothing(path, tmp_path):
    """Kill it at random moments, each time on a new copy or on what the last one has left."""
    chance = random.Random(3)
    root = tmp_path / "killed"
    for number in range(NUM_KILLS):
        if number % 3 == 0:
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(path.parent, root)
        if not (pid := os.fork()):
            try:
                Store(root / path.name)
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0, 0.2))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        store = Store(root / path.name)
        check(store, root)
        store.close()
        assert lost_and_found.notes(root) == []
