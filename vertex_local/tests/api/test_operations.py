"""Operations whose result cannot be stored at first."""

import sqlite3

import pytest

from vertex_local.api import ends, operations
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.fast


def test_a_result_that_a_full_disk_refuses_is_stored_once_there_is_space(monkeypatch, idle_service):
    service = idle_service
    monkeypatch.setattr(ends, "RETRY_SECONDS", 0.01)
    update, refusals = service.store.update, [sqlite3.OperationalError("disk is full")] * 3

    def refuse(name, change):
        if refusals:
            raise refusals.pop()
        return update(name, change)

    monkeypatch.setattr(service.store, "update", refuse)
    begun = operations.start(
        service,
        "projects/p/locations/l/models/1",
        "UploadModel",
        lambda _: {"model": "m"},
    )
    wait_until(lambda: service.store.get(begun["name"])["done"])
    assert service.store.get(begun["name"])["response"]["model"] == "m"
    service.store.close()
