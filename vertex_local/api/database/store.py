"""Resources as JSON in one SQLite file; committed changes survive a killed process."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from vertex_local import Json
from vertex_local.api.database import opening, specs
from vertex_local.api.database.records import problem_of
from vertex_local.api.database.reserve import Reserve
from vertex_local.api.fields import labels_of, row_of
from vertex_local.api.query import select
from vertex_local.api.resource_names import ResourcePath
from vertex_local.errors import StartError, already_exists, not_found
from vertex_local.machine import lost_and_found
from vertex_local.machine.clock import now

Resources = list[Json]
# Called with the name of a changed resource and its content, None if it was deleted.
Observer = Callable[[str, Json | None], None]
# Returns the positions of a page's resources, and the next page's token.
Reader = Callable[[sqlite3.Connection], tuple[list[int], str]]

IS_OF_KIND = "position IN (SELECT position FROM listed WHERE kind = ?)"
# All but intact records of runs and jobs, which are too many to be decoded at each start.
MAY_BE_DAMAGED = """
CASE WHEN json_valid(body) AND body NOT GLOB '*[^ -~]*'
AND (collection GLOB '*/pipelineJobs' OR collection GLOB '*/customJobs')
THEN json_type(body, '$.name') IS NOT 'text' OR json_type(body, '$.state') IS NOT 'text'
OR json_type(body, '$.createTime') IS NOT 'text' ELSE 1 END
"""
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


class Store:
    """Resources by name; thread-safe, for one process at a time (see `root_lock.py`).

    `lock` is held during reads that belong together.

    Raises:
        StartError: The file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        self._observers: list[Observer] = []
        self._changed: dict[str, Json | None] = {}  # in the present transaction
        self._root = path.parent
        self.reserve = Reserve(path.parent)
        self.reserve.use_if_full()
        self._connection = opening.connect(path)
        if opening.version_of(self._connection) < opening.VERSION:
            self._make_tables(path)
        else:
            self._keep_damaged(MAY_BE_DAMAGED)
        self.reserve.restore()

    def _make_tables(self, path: Path) -> None:
        """Create the tables; fill those for lists from the resources."""
        try:
            with self.atomic() as connection:
                for statement in f"{SCHEMA}{specs.SCHEMA}{select.SCHEMA}".split(";"):
                    connection.execute(statement)
                self._keep_damaged()
                for position, name, text in connection.execute(
                    "SELECT position, name, body FROM resources"
                ):
                    select.put(connection, position, name, json.loads(text))
                opening.mark(connection)
        except sqlite3.Error as error:
            self._connection.close()
            raise StartError(
                f"{path} cannot be written ({error}); free some space there, or make it writable."
            ) from error

    def _keep_damaged(self, where: str = "1") -> None:
        """Keep the records aside that cannot be used, so that the others can."""
        with self.atomic() as connection:
            rows = connection.execute(
                f"SELECT position, name, CAST(body AS BLOB) FROM resources WHERE {where}"
            )
            damaged = [(row[1], problem) for row in rows if (problem := problem_of(row[1], row[2]))]
            for name, problem in damaged:
                self.keep_aside(name, problem)
            connection.execute("DELETE FROM specs WHERE NOT json_valid(body)")

    def keep_aside(self, name: str, problem: str) -> None:
        """Move the record of a resource that cannot be used to lost+found."""
        with self.atomic() as connection:
            query = "SELECT CAST(body AS BLOB) FROM resources WHERE name = ?"
            (data,) = connection.execute(query, (name,)).fetchone()
            lost_and_found.keep_copy(
                self._root,
                f"{quote(name, safe='@')}.json",
                data,
                problem=f"the record of {name} {problem}",
            )
            _remove(connection, name)

    def insert(self, name: str, body: Json) -> None:
        """Add a resource.

        Raises:
            ApiError: ALREADY_EXISTS.
        """
        created = now()
        stored = specs.without(body)
        row = (
            name,
            ResourcePath.from_name(name).full_collection,
            json.dumps(stored),
            created,
            created,
        )
        with self.atomic() as connection:
            try:
                cursor = connection.execute(
                    "INSERT INTO resources (name, collection, body, created, updated) "
                    "VALUES (?, ?, ?, ?, ?)",
                    row,
                )
            except sqlite3.IntegrityError:
                raise already_exists(name) from None
            specs.put(connection, name, body)
            select.put(connection, cursor.lastrowid or 0, name, stored)
            self._changed[name] = stored

    def find(self, name: str) -> Json | None:
        """Return a resource, a run without its specification; None if it does not exist."""
        with self.lock:
            row = self._connection.execute(
                "SELECT body FROM resources WHERE name = ?", (name,)
            ).fetchone()
        return _decode(row[0]) if row else None

    def get(self, name: str) -> Json:
        """Return a resource.

        Raises:
            ApiError: NOT_FOUND.
        """
        body = self.find(name)
        if body is None:
            raise not_found(name)
        return body

    def with_spec(self, run: Json) -> Json:
        """Return a run with its whole specification."""
        with self.lock:
            return specs.join(self._connection, run)

    def list_kind(self, kind: str) -> Resources:
        """Return the resources of a kind (`customJobs`) of every location, oldest first."""
        return self._bodies(IS_OF_KIND, kind)

    def unfinished(self, kind: str) -> Resources:
        """Return the jobs, runs or operations of every location that have not ended."""
        return self._bodies(f"{IS_OF_KIND[:-1]} AND {select.IS_UNFINISHED})", kind)

    def names(self, kind: str, *, parent: str = "") -> Sequence[str]:
        """Return the names of a kind's resources, of every parent if none is given."""
        where = ("collection = ?", f"{parent}/{kind}") if parent else (IS_OF_KIND, kind)
        return self._column("name", *where)

    def page(self, read: Reader) -> tuple[Resources, str]:
        """Return the resources at the positions from `read`, and the next page's token."""
        with self.lock:
            positions, token = read(self._connection)
            rows = [
                self._connection.execute(
                    "SELECT body FROM resources WHERE position = ?", (position,)
                ).fetchone()
                for position in positions
            ]
        return [_decode(row[0]) for row in rows], token

    def update(self, name: str, change: Callable[[Json], None]) -> Json:
        """Change a resource in one transaction; if `change` raises, nothing changes."""
        with self.atomic() as connection:
            body = self.get(name)
            listed = row_of(name, body), labels_of(body)
            change(body)
            connection.execute(
                "UPDATE resources SET body = ?, updated = ? WHERE name = ?",
                (json.dumps(body), now(), name),
            )
            if listed != (row_of(name, body), labels_of(body)):
                select.put(connection, _position(connection, name), name, body)
            self._changed[name] = body
        return body

    def delete(self, name: str) -> None:
        """Delete a resource.

        Raises:
            ApiError: NOT_FOUND.
        """
        with self.atomic() as connection:
            self.get(name)
            _remove(connection, name)
            self._changed[name] = None

    def observe(self, kind: str, observer: Observer) -> None:
        """Call `observer` with each resource of a kind, now and after each commit that changes one.

        It is called in the order of the commits, before the change's own call returns.
        """

        def observe(name: str, body: Json | None) -> None:
            if ResourcePath.from_name(name).collection == kind:
                observer(name, body)

        with self.lock:
            for body in self.list_kind(kind):
                observer(body["name"], body)
            self._observers.append(observe)

    def next_id(self) -> str:
        """Return a number that was never returned before, also across restarts."""
        with self.atomic() as connection:
            connection.execute("UPDATE ids SET last = last + 1")
            row = connection.execute("SELECT last FROM ids").fetchone()
        return str(row[0])

    @contextmanager
    def atomic(self) -> Iterator[sqlite3.Connection]:
        """Run several steps in one transaction; may be nested."""
        with self.lock:
            if self._connection.in_transaction:  # nested: the outer one commits
                yield self._connection
                return
            self.reserve.use_if_full()
            self._connection.execute("BEGIN IMMEDIATE")
            self._changed = {}
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:  # SQLite rolls back by itself on a full disk
                    self._connection.execute("ROLLBACK")
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                    self.reserve.use()  # perhaps a quota: the next attempt has space
                raise
            for name, body in self._changed.items():
                for observer in self._observers:
                    observer(name, body)

    def checkpoint(self) -> None:
        """Move SQLite's journal into the file, so that a copy of the file alone is complete."""
        with self.lock, suppress(sqlite3.OperationalError):  # a full disk: the journal stays
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._connection.close()

    def _bodies(self, where: str, value: str) -> Resources:
        return [_decode(text) for text in self._column("body", where, value)]

    def _column(self, column: str, where: str, value: str) -> Sequence[str]:
        query = f"SELECT {column} FROM resources WHERE {where} ORDER BY position"
        with self.lock:
            return [row[0] for row in self._connection.execute(query, (value,))]


def _position(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT position FROM resources WHERE name = ?", (name,)).fetchone()
    return int(row[0])


def _remove(connection: sqlite3.Connection, name: str) -> None:
    select.remove(connection, _position(connection, name))
    specs.remove(connection, name)
    connection.execute("DELETE FROM resources WHERE name = ?", (name,))


def _decode(text: str) -> Json:
    body: Json = json.loads(text)
    return body
