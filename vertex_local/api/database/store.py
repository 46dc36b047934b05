"""Resources as JSON in one SQLite file: what was acknowledged survives the process."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vertex_local.api.database import opening
from vertex_local.api.database.reserve import Reserve
from vertex_local.api.query import select
from vertex_local.api.query.fields import labels_of, row_of
from vertex_local.errors import already_exists, not_found
from vertex_local.json_types import Json
from vertex_local.machine.clock import now

Resources = list[Json]
# Returns the positions of a page's resources, and the next page's token.
Reader = Callable[[sqlite3.Connection], tuple[list[int], str]]

SCHEMA = """
CREATE TABLE IF NOT EXISTS resources (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    collection TEXT NOT NULL,
    body TEXT NOT NULL,
    created TEXT NOT NULL,
    updated TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS resources_by_collection ON resources (collection, position);
CREATE TABLE IF NOT EXISTS ids (last INTEGER NOT NULL);
INSERT INTO ids SELECT 1000 WHERE NOT EXISTS (SELECT 1 FROM ids);
"""


def collection_of(name: str) -> str:
    """`projects/P/locations/L/models` for `projects/P/locations/L/models/5`."""
    return name.rpartition("/")[0]


class Store:
    """Thread-safe resources by name; one process at a time (the service's lock sees to it).

    Raises:
        opening.StoreError: The file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self.space = Reserve(path.parent)
        self.space.use_if_full()
        self._connection = opening.connect(path)
        if opening.version_of(self._connection) < opening.VERSION:
            self._migrate(path)
        self.space.restore()

    def _migrate(self, path: Path) -> None:
        """Make the tables, and fill the one that lists go by from what an earlier service wrote."""
        try:
            with self.atomic() as connection:
                for statement in f"{SCHEMA}{select.SCHEMA}".split(";"):
                    connection.execute(statement)
                for position, name, text in connection.execute(
                    "SELECT position, name, body FROM resources"
                ).fetchall():
                    select.put(connection, position, name, _kind_of(name), json.loads(text))
                opening.mark(connection)
        except sqlite3.Error as error:
            self._connection.close()
            raise opening.StoreError(
                f"{path} cannot be written ({error}); make space there, or make it writable."
            ) from error

    def insert(self, name: str, body: Json) -> None:
        """Adds a resource.

        Raises:
            ApiError: ALREADY_EXISTS.
        """
        created = now()
        row = (name, collection_of(name), json.dumps(body), created, created)
        with self.atomic() as connection:
            try:
                cursor = connection.execute(
                    "INSERT INTO resources (name, collection, body, created, updated) "
                    "VALUES (?, ?, ?, ?, ?)",
                    row,
                )
            except sqlite3.IntegrityError:
                raise already_exists(name) from None
            select.put(connection, cursor.lastrowid or 0, name, _kind_of(name), body)

    def find(self, name: str) -> Json | None:
        """The resource, or None."""
        with self._lock:
            row = self._connection.execute(
                "SELECT body FROM resources WHERE name = ?", (name,)
            ).fetchone()
        return _decode(row[0]) if row else None

    def get(self, name: str) -> Json:
        """The resource.

        Raises:
            ApiError: NOT_FOUND.
        """
        body = self.find(name)
        if body is None:
            raise not_found(name)
        return body

    def list(self, collection: str) -> Resources:
        """The resources directly in `projects/P/locations/L/customJobs`, oldest first."""
        return self._bodies("WHERE collection = ?", collection)

    def list_kind(self, kind: str) -> Resources:
        """The resources of a kind (`customJobs`) in every project and location, oldest first."""
        return self._bodies("WHERE collection GLOB ?", f"projects/*/{kind}")

    def page(self, read: Reader) -> tuple[Resources, str]:
        """The resources at the positions that `read` returns, and the next page's token."""
        with self._lock:
            positions, token = read(self._connection)
            rows = [
                self._connection.execute(
                    "SELECT body FROM resources WHERE position = ?", (position,)
                ).fetchone()
                for position in positions
            ]
        return [_decode(row[0]) for row in rows], token

    def update(self, name: str, change: Callable[[Json], None]) -> Json:
        """Lets `change` alter the resource, as one atomic step; if it raises, nothing changes."""
        with self.atomic() as connection:
            body = self.get(name)
            kind = _kind_of(name)
            listed = row_of(kind, name, body), labels_of(kind, body)
            change(body)
            connection.execute(
                "UPDATE resources SET body = ?, updated = ? WHERE name = ?",
                (json.dumps(body), now(), name),
            )
            if listed != (row_of(kind, name, body), labels_of(kind, body)):
                select.put(connection, _position(connection, name), name, kind, body)
        return body

    def delete(self, name: str) -> None:
        """Removes a resource.

        Raises:
            ApiError: NOT_FOUND.
        """
        with self.atomic() as connection:
            self.get(name)
            select.remove(connection, _position(connection, name))
            connection.execute("DELETE FROM resources WHERE name = ?", (name,))

    def next_id(self) -> str:
        """A number that was never given out before, also across restarts."""
        with self.atomic() as connection:
            connection.execute("UPDATE ids SET last = last + 1")
            row = connection.execute("SELECT last FROM ids").fetchone()
        return str(row[0])

    @contextmanager
    def atomic(self) -> Iterator[sqlite3.Connection]:
        """Several steps as one: all of them are kept, or none if one raises. May be nested."""
        with self._lock:
            if self._connection.in_transaction:  # nested: the outer one commits
                yield self._connection
                return
            self.space.use_if_full()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:  # SQLite rolls back by itself on a full disk
                    self._connection.execute("ROLLBACK")
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                    self.space.use()  # a quota, say: the next attempt has room
                raise

    def settle(self) -> None:
        """Moves what SQLite's journal holds into the file: a copy of that alone is then whole."""
        with self._lock, suppress(sqlite3.OperationalError):  # a full disk: the journal stays
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Closes the file; the store cannot be used afterwards."""
        with self._lock:
            self._connection.close()

    def _bodies(self, where: str, value: str) -> Resources:
        with self._lock:
            rows = self._connection.execute(
                f"SELECT body FROM resources {where} ORDER BY position", (value,)
            ).fetchall()
        return [_decode(row[0]) for row in rows]


def _kind_of(name: str) -> str:
    return collection_of(name).rpartition("/")[2]


def _position(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT position FROM resources WHERE name = ?", (name,)).fetchone()
    return int(row[0])


def _decode(text: str) -> Json:
    body: Json = json.loads(text)
    return body
