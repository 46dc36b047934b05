"""The store: atomic, ordered and persistent."""

import sqlite3
import threading

import pytest

from vertex_local.api.database.store import Store
from vertex_local.errors import ApiError, of_exception

pytestmark = pytest.mark.fast

MODELS = "projects/p/locations/l/models"


def test_resource_survives_reopening(tmp_path, store):
    name = "projects/p/locations/l/operations/5"
    store.insert(name, {"name": name, "text": "ü"})
    last = store.next_id()
    store.close()
    again = Store(tmp_path / "vertex.db")
    assert again.get(name) == {"name": name, "text": "ü"}
    assert int(again.next_id()) > int(last)
    again.close()


def test_missing_and_duplicate_names_are_errors(store):
    for action in (store.get, store.delete, lambda name: store.update(name, dict.clear)):
        with pytest.raises(ApiError, match="models/5 is not found") as error:
            action(f"{MODELS}/5")
        assert error.value.code == 404
    store.insert(f"{MODELS}/5", {})
    with pytest.raises(ApiError, match="already exists"):
        store.insert(f"{MODELS}/5", {})
    assert store.find(f"{MODELS}/6") is None


def test_list_is_by_exact_parent_and_in_order_of_creation(store):
    names = [f"{MODELS}/9", f"{MODELS}/10", f"{MODELS}/1"]
    for name in names:
        store.insert(name, {"name": name})
    store.insert(f"{MODELS}/9/operations/2", {"name": "operation"})
    store.insert("projects/other/locations/l/models/3", {"name": "other"})
    assert store.names("models", parent="projects/p/locations/l") == names
    assert [one["name"] for one in store.list_kind("models")] == [*names, "other"]
    assert store.list_kind("operations") == [{"name": "operation"}]


def test_a_failed_change_changes_nothing(store):
    store.insert(f"{MODELS}/5", {"n": 1})

    def change(body):
        body["n"] = 2
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.update(f"{MODELS}/5", change)

    def several():
        with store.atomic():
            store.insert(f"{MODELS}/6", {})
            store.update(f"{MODELS}/5", change)

    with pytest.raises(ValueError, match="no"):
        several()
    assert store.get(f"{MODELS}/5") == {"n": 1}
    assert store.find(f"{MODELS}/6") is None


def test_full_disk_is_resource_exhausted_and_leaves_the_store_usable(store):
    store.insert(f"{MODELS}/5", {"n": 1})
    with store.atomic() as connection:
        connection.execute("PRAGMA max_page_count = 1")  # SQLite's own way to be full
    with pytest.raises(sqlite3.Error) as error:
        store.update(f"{MODELS}/5", lambda body: body.update(n="x" * 100_000))
    assert of_exception(error.value).status == "RESOURCE_EXHAUSTED"
    assert store.get(f"{MODELS}/5") == {"n": 1}
    with store.atomic() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    store.update(f"{MODELS}/5", lambda body: body.update(n=2))
    assert store.get(f"{MODELS}/5") == {"n": 2}


def test_concurrent_updates_are_all_stored_and_ids_are_unique(store):
    store.insert(f"{MODELS}/5", {"n": 0})
    ids: list[str] = []

    def work():
        for _ in range(50):
            store.update(f"{MODELS}/5", lambda body: body.update(n=body["n"] + 1))
            ids.append(store.next_id())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert store.get(f"{MODELS}/5") == {"n": 400}
    assert len(set(ids)) == 400
