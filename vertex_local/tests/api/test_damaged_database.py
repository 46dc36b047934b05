"""Unusable databases: `vertex-local` and every command fail at once, with one line."""

import shutil
import time

import pytest

from vertex_local.api.database.store import Store
from vertex_local.client import START_TIMEOUT_SECONDS, LocalService, ServiceError
from vertex_local.tests.support.service import run_cli, running_service


@pytest.fixture
def root(tmp_path):
    """The root folder of a service, with a database."""
    root = tmp_path / "vertex"
    root.mkdir()
    Store(root / "vertex.db").close()
    return root


def test_the_service_and_a_command_that_starts_it_fail_with_one_line(root, tmp_path, monkeypatch):
    path = root / "vertex.db"
    path.write_bytes(path.read_bytes()[:5000])
    code, output = run_cli(tmp_path / "log", "serve", "--root", str(root))
    assert code == 2
    assert output.startswith(f"vertex-local: {path} ")
    assert output.count("\n") == 1

    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    service = LocalService(root)
    began = time.monotonic()
    with pytest.raises(ServiceError, match=str(path)) as error:
        service.join()
    service.leave()
    assert time.monotonic() - began < START_TIMEOUT_SECONDS - 5, "it waits for nothing"
    assert "\n" not in str(error.value)
    assert path.stat().st_size == 5000


def test_a_copy_of_the_database_of_a_stopped_service_is_complete(tmp_path):
    with running_service(tmp_path / "vertex") as service:
        service.do("POST", "endpoints", {"displayName": "kept"})
    shutil.copy(tmp_path / "vertex" / "vertex.db", tmp_path / "vertex.db")
    copy = Store(tmp_path / "vertex.db")
    found = copy.list_kind("endpoints")
    copy.close()
    assert [one["displayName"] for one in found] == ["kept"]
