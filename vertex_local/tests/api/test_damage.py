"""Damaged databases and those of other programs: refused in one line, and not changed."""

import hashlib
import json
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from vertex_local.api.database.opening import LEAST_VERSION, VERSION
from vertex_local.api.database.records import problem_of
from vertex_local.api.database.store import Store
from vertex_local.api.fields import COLUMNS
from vertex_local.errors import StartError
from vertex_local.machine import lost_and_found
from vertex_local.tests.support.strangers import as_stranger, needs_root

pytestmark = pytest.mark.fast

ENDPOINTS = "projects/p/locations/l/endpoints"
NUM_ENDPOINTS = 60


@pytest.fixture
def path(tmp_path):
    """An intact, closed database."""
    path = tmp_path / "root" / "vertex.db"
    path.parent.mkdir()
    store = Store(path)
    for number in range(NUM_ENDPOINTS):
        store.insert(f"{ENDPOINTS}/{number}", body(number))
    store.close()
    return path


def body(number):
    return {
        "name": f"{ENDPOINTS}/{number}",
        "displayName": f"m{number}",
        "createTime": "2026-11-20T12:00:00Z",
        "text": "x" * 500 * (number % 5),
    }


def sums(folder):
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def refusal(path):
    """Return the error for a database, which must not change."""
    before = sums(path.parent)
    with pytest.raises(StartError) as error:
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
    "all but a page": (lambda path: cut(path, -4096), "is damaged"),
    "all but a byte": (lambda path: cut(path, -1), "is damaged"),
    "random": (lambda path: path.write_bytes(random.Random(1).randbytes(50_000)), "is damaged"),
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
        "another version",
    ),
    "an older service's": (
        lambda path: run_on_ours(path, "PRAGMA user_version = 3"),
        "schema 3, supported: 4 to 6",
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
        except StartError as error:
            return str(error)

    for parent in path.parents:
        if parent == Path(tempfile.gettempdir()).parent:
            break
        parent.chmod(0o755)
    said = as_stranger(open_it)
    assert said is not None
    assert said.startswith(str(path))
    assert "readable and writable" in said


def test_random_damage_is_found_or_has_no_effect(path, tmp_path):
    """Overwrite some bytes: the database is refused, or its records can be read."""
    for seed in range(40):
        chance = random.Random(seed)
        damaged = shutil.copytree(path.parent, tmp_path / f"{seed}") / path.name
        data = bytearray(path.read_bytes())
        start, size = chance.randrange(len(data)), chance.choice([1, 8, 100, 4096])
        data[start : start + size] = chance.randbytes(len(data[start : start + size]))
        damaged.write_bytes(data)
        before = sums(damaged.parent)
        try:
            store = Store(damaged)
        except StartError:
            assert sums(damaged.parent) == before, seed
            continue
        for number in range(NUM_ENDPOINTS):
            store.find(f"{ENDPOINTS}/{number}")
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
    store.insert(f"{ENDPOINTS}/1", body(1))
    store.close()


RECORDS = {
    "half JSON": b"{",
    "a list": b"[]",
    "no fields": b"{}",
    "not UTF-8": b'{"name": "\xff"}',
    "too deep": b"[" * 100_000,
    "another's": json.dumps({**body(5), "createTime": 7}).encode(),
}


@pytest.mark.parametrize("data", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("version", [LEAST_VERSION, VERSION])
def test_a_record_that_says_nothing_is_kept_aside_and_the_others_are_listed(path, data, version):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        statement = "UPDATE resources SET body = CAST(? AS TEXT) WHERE position = 7"
        connection.execute(statement, (data,))
        if version == LEAST_VERSION:
            connection.execute("DROP TABLE listed")
            connection.execute("DROP TABLE labels")
        connection.execute(f"PRAGMA user_version = {version}")
    for _ in range(2):  # the second start has nothing to note
        store = Store(path)
        assert store.list_kind("endpoints") == [body(n) for n in range(NUM_ENDPOINTS) if n != 6]
        assert store.page(lambda c: ([r[0] for r in c.execute("SELECT position FROM listed")], ""))
        store.close()
    [note] = lost_and_found.notes(path.parent)
    assert f"the record of {ENDPOINTS}/6 " in note
    assert Path(note.partition("it is kept as ")[2]).read_bytes() == data


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("customJobs", {"createTime": ""}),
        ("pipelineJobs", {"createTime": "", "state": 3}),
        ("schedules", {"createTime": "", "state": "ACTIVE"}),
        ("models", {"folder": "6", "lastVersion": 1, "labels": {}, "aliases": []}),
        ("models", {"folder": "6", "lastVersion": 1, "labels": {}, "versions": [{}]}),
        ("models/5/versions", {"versionId": 6, "versionCreateTime": ""}),
        ("endpoints", {"createTime": "", "deployedModels": [[]]}),
        ("endpoints", {"createTime": "", "deployedModels": 7}),
    ],
)
def test_a_record_without_what_its_kind_needs_is_noticed(kind, record):
    name = f"projects/p/locations/l/{kind}/6"
    assert problem_of(name, json.dumps({"name": name, **record}).encode()).startswith(
        "has no valid"
    )


@pytest.fixture
def killed(path):
    """Return the database of a service that was killed after another change."""
    store = Store(path)
    store.insert(f"{ENDPOINTS}/60", body(60))
    killed = path.parent.parent / "killed"
    shutil.copytree(path.parent, killed)
    store.close()
    return killed / "vertex.db"


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


JOURNALS = {
    "a byte of the head": lambda journal: flip(journal, 3),
    "a byte of the first frame": lambda journal: flip(journal, 60),
    "a byte of the last frame": lambda journal: flip(journal, -20),
    "all but a byte": lambda journal: cut(journal, -1),
    "all but the last frame": lambda journal: cut(journal, -4096 - 24),
    "empty": lambda journal: journal.write_bytes(b""),
    "random": lambda journal: journal.write_bytes(random.Random(1).randbytes(40_000)),
    "removed": lambda journal: journal.unlink(),
}


@pytest.mark.parametrize("damage", JOURNALS.values(), ids=JOURNALS)
def test_a_damaged_journal_of_a_killed_service_is_noted_and_kept(killed, damage):
    journal = killed.with_name("vertex.db-wal")
    damage(journal)
    data = journal.read_bytes() if journal.exists() else b""
    for _ in range(2):  # the second start has nothing to note
        store = Store(killed)
        assert len(store.list_kind("endpoints")) == NUM_ENDPOINTS
        store.close()
    [note] = lost_and_found.notes(killed.parent)
    assert "the last changes of models, endpoints, jobs and runs are lost" in note
    assert Path(note.partition("it is kept as ")[2]).read_bytes() == data


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_an_intact_journal_of_a_killed_service_is_not_noted(path, killed, is_checkpointed):
    if is_checkpointed:
        store = Store(killed)
        store.checkpoint()
        store.insert(f"{ENDPOINTS}/61", body(61))
        killed = Path(shutil.copytree(killed.parent, killed.parent.parent / "again")) / killed.name
        store.close()
    store = Store(killed)
    assert len(store.list_kind("endpoints")) == NUM_ENDPOINTS + 1 + is_checkpointed
    store.close()
    assert lost_and_found.notes(killed.parent) == []


def test_a_table_for_lists_with_other_columns_is_made_again(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP INDEX listed_by_create_time")
        connection.execute("ALTER TABLE listed DROP COLUMN create_time")
        connection.execute(f"PRAGMA user_version = {LEAST_VERSION}")
    store = Store(path)
    store.insert(f"{ENDPOINTS}/61", body(61))
    assert len(store.list_kind("endpoints")) == NUM_ENDPOINTS + 1
    store.close()


def test_other_columns_are_another_version_of_the_schema():
    digest = hashlib.sha256(" ".join(COLUMNS).encode()).hexdigest()[:8]
    assert (VERSION, digest) == (6, "fbc7b4de"), "raise VERSION: existing databases lack a column"
