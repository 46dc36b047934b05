"""Unusable databases: `vertex-local` and every command fail at once, with one line."""

import random
import shutil
import sqlite3
import time

import pytest

from vertex_local.api.database.store import Store
from vertex_local.client import START_TIMEOUT_SECONDS, LocalService, ServiceError
from vertex_local.tests.support.forks import forks_with
from vertex_local.tests.support.service import FORKED, running_service

DAMAGES = {
    "random bytes": lambda path: path.write_bytes(random.Random(1).randbytes(10_000)),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "another program's": lambda path: (path.unlink(), foreign(path)),
    "newer": lambda path: execute(path, "PRAGMA user_version = 99"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def execute(path, statement):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


def foreign(path):
    execute(path, "CREATE TABLE cookies (name TEXT)")


@pytest.fixture
def root(tmp_path):
    """The root folder of a service, with a database."""
    root = tmp_path / "vertex"
    root.mkdir()
    Store(root / "vertex.db").close()
    return root


def content(path):
    return path.read_bytes() if path.is_file() else None


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_serve_fails_with_one_line(root, tmp_path, damage):
    damage(root / "vertex.db")
    before = content(root / "vertex.db")
    words = ["python", "-m", "vertex_local.cli", "serve", "--root", str(root)]
    ended = forks_with(*FORKED[0]).start(words, log_path=tmp_path / "log")
    assert ended.wait(60) == 2
    assert ended.output.startswith(f"vertex-local: {root / 'vertex.db'} ")
    assert ended.output.count("\n") == 1
    assert content(root / "vertex.db") == before


def test_a_command_that_starts_the_service_fails_without_waiting(root, monkeypatch):
    DAMAGES["truncated"](root / "vertex.db")
    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    service = LocalService(root)
    began = time.monotonic()
    with pytest.raises(ServiceError, match=str(root / "vertex.db")) as error:
        service.join()
    service.leave()
    assert time.monotonic() - began < START_TIMEOUT_SECONDS - 5
    assert "\n" not in str(error.value)


def test_a_copy_of_the_database_of_a_stopped_service_is_complete(tmp_path):
    with running_service(tmp_path / "vertex") as service:
        service.do("POST", "endpoints", {"displayName": "kept"})
    shutil.copy(tmp_path / "vertex" / "vertex.db", tmp_path / "vertex.db")
    copy = Store(tmp_path / "vertex.db")
    found = copy.list_kind("endpoints")
    copy.close()
    assert [one["displayName"] for one in found] == ["kept"]
