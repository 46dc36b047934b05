"""Damaged databases and those of other programs: refused in one line, and not changed."""

import hashlib
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.vertex_local.http.test_peers import as_stranger, needs_root
from vertex_local.api.database.opening import APPLICATION_ID, StoreError
from vertex_local.api.database.store import Store

pytestmark = pytest.mark.fast

MODELS = "projects/p/locations/l/models"
NUM_MODELS = 60


@pytest.fixture
def path(tmp_path):
    """An intact, closed database."""
    path = tmp_path / "root" / "vertex.db"
    path.parent.mkdir()
    store = Store(path)
    for number in range(NUM_MODELS):
        store.insert(f"{MODELS}/{number}", body(number))
    store.close()
    return path


def body(number):
    return {"displayName": f"m{number}", "text": "x" * 500 * (number % 5)}


def sums(folder):
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def refusal(path):
    """Return the error for a database, which must not change."""
    before = sums(path.parent)
    with pytest.raises(StoreError) as error:
        Store(path)
    assert sums(path.parent) == before
    message = str(error.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


def other_program(path, *statements):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def cut(path, size):
    data = path.read_bytes()
    path.write_bytes(data[:size] if size > 0 else data[: len(data) + size])


def run_on_ours(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


DAMAGES = {
    "one byte": (lambda path: cut(path, 1), "is damaged"),
    "half a head": (lambda path: cut(path, 50), "is damaged"),
    "a page": (lambda path: cut(path, 4096), "is damaged"),
    "half": (lambda path: cut(path, path.stat().st_size // 2), "is damaged"),
    "all but a page": (lambda path: cut(path, -4096), "is damaged"),
    "all but a byte": (lambda path: cut(path, -1), "is damaged"),
    "random": (lambda path: path.write_bytes(random.Random(1).randbytes(50_000)), "is damaged"),
    "text": (lambda path: path.write_text("hello\n" * 100), "is damaged"),
    "zeros": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "is damaged"),
    "a record": (
        lambda path: run_on_ours(path, "UPDATE resources SET body = '{' WHERE position = 7"),
        f"is damaged (the record of {MODELS}/6)",
    ),
    "other tables": (
        lambda path: other_program(path, "CREATE TABLE cookies (name TEXT)"),
        "another program's",
    ),
    "other tables, in WAL mode": (
        lambda path: other_program(
            path, "PRAGMA journal_mode = WAL", "CREATE TABLE resources (url TEXT)"
        ),
        "another program's",
    ),
    "another application's": (
        lambda path: run_on_ours(path, "PRAGMA application_id = 252006674"),
        "another program's",
    ),
    "a newer service's": (
        lambda path: run_on_ours(path, "PRAGMA user_version = 99"),
        "newer version",
    ),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "a folder"),
}


@pytest.mark.parametrize(("damage", "problem"), DAMAGES.values(), ids=DAMAGES)
def test_an_unusable_database_is_named_and_not_changed(path, damage, problem):
    damage(path)
    assert problem in refusal(path)


@needs_root
def test_a_database_without_permission_is_refused(path):
    path.chmod(0)

    def open_it():
        try:
            Store(path)
        except StoreError as error:
            return str(error)

    for parent in path.parents:
        if parent == Path(tempfile.gettempdir()).parent:
            break
        parent.chmod(0o755)
    said = as_stranger(open_it)
    assert said is not None
    assert said.startswith(str(path))
    assert "readable and writable" in said


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_found_or_has_no_effect(path, seed):
    """Overwrite some bytes: the database is refused, or all records are unchanged."""
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    start, size = chance.randrange(len(data)), chance.choice([1, 8, 100, 4096])
    data[start : start + size] = chance.randbytes(len(data[start : start + size]))
    path.write_bytes(data)
    before = sums(path.parent)
    try:
        store = Store(path)
    except StoreError:
        assert sums(path.parent) == before
        return
    for number in range(NUM_MODELS):
        store.find(f"{MODELS}/{number}")
    store.list_kind("models")
    store.close()


@pytest.mark.parametrize("left", [None, b""], ids=["missing", "empty"])
def test_a_missing_database_does_not_remove_the_folders_of_models(path, left):
    (path.parent / "models" / "5" / "1").mkdir(parents=True)
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    assert "missing or empty" in refusal(path)


@pytest.mark.parametrize("statements", [[], ["PRAGMA journal_mode = WAL"]])
def test_a_database_whose_creation_was_interrupted_is_created(tmp_path, statements):
    path = tmp_path / "vertex.db"
    path.touch()
    other_program(path, *statements)
    store = Store(path)
    store.insert(f"{MODELS}/1", {})
    store.close()


def test_a_damaged_journal_is_ignored(path):
    path.with_name("vertex.db-wal").write_bytes(random.Random(1).randbytes(40_000))
    store = Store(path)
    assert len(store.list(MODELS)) == NUM_MODELS
    store.close()


def test_the_database_of_an_earlier_version_is_migrated(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("DROP TABLE listed", "DROP TABLE labels", "PRAGMA user_version = 0"):
            connection.execute(statement)
        connection.execute("PRAGMA application_id = 0")
    store = Store(path)
    assert store.list(MODELS) == [body(number) for number in range(NUM_MODELS)]
    rows = store._connection.execute("SELECT display_name FROM listed ORDER BY position").fetchall()
    assert rows == [(f"m{number}",) for number in range(NUM_MODELS)]
    assert store._connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    store.close()
