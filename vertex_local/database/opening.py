"""Opens the service's SQLite file, if it is one; anything else is left as it is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

MAGIC = b"SQLite format 3\0"
APPLICATION_ID = 0x76746C63  # "vtlc"; earlier versions of the service have written none
VERSION = 1  # PRAGMA user_version of the schema; 0 has no table of what lists go by
TABLES = {"resources", "ids"}
# Folders of the root whose contents belong to records of the database.
FOLDERS = ("models", "jobs", "pipelines", "endpoints")
RESTORE = "restore a copy of it, or move {root} away (mv {root} {root}.old) to begin with none"
FULL_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
DAMAGE_CODES = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


class StoreError(Exception):
    """The database cannot be used; nothing of it was changed. The message says what to do."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to the service's database; a missing one is made.

    Raises:
        StoreError: It is damaged, another program's, or cannot be read or written.
    """
    with _explained(path):
        if path.exists() and path.stat().st_size:
            _check(path)
        elif left := _left_folder(path.parent):
            raise StoreError(f"{path} is missing or empty, but {left} is not; {_restore(path)}.")
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the schema."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def mark(connection: sqlite3.Connection) -> None:
    """Note that the database is the service's, and of this version."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _check(path: Path) -> None:
    """Read the file without writing to it; raise StoreError if the service cannot use it."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder, not the service's database; move it away.")
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise StoreError(f"{path} is damaged: it is not a SQLite file; {_restore(path)}.")
    uri = f"file:{quote(str(path))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            problem = str(found).replace("\n", " ").removeprefix("*** in database main *** ")
            raise StoreError(f"{path} is damaged ({problem}); {_restore(path)}.")
        _check_owner(path, connection)
        broken = connection.execute(
            "SELECT name FROM resources WHERE NOT json_valid(body) LIMIT 1"
        ).fetchone()
    if broken:
        raise StoreError(f"{path} is damaged (the record of {broken[0]}); {_restore(path)}.")


def _check_owner(path: Path, connection: sqlite3.Connection) -> None:
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {str(row[0]) for row in rows}
    if owner not in (0, APPLICATION_ID) or not tables >= TABLES:
        raise StoreError(
            f"{path} is another program's database, and is left as it is; move it away, or choose "
            "another --root."
        )
    if (version := version_of(connection)) > VERSION:
        raise StoreError(
            f"{path} was written by a newer version of the service (schema {version}, this one "
            f"knows {VERSION}); use that version, or choose another --root."
        )


def _left_folder(root: Path) -> Path | None:
    """Return a folder that a service with a database has filled, if there is one."""
    for name in FOLDERS:
        if any(path.is_dir() for path in (root / name).glob("*")):
            return root / name
    return None


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}; make it readable and writable for this "
            "user, or choose another --root."
        ) from error
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode & 0xFF
        if code in DAMAGE_CODES:
            raise StoreError(f"{path} is damaged ({error}); {_restore(path)}.") from error
        advice = (
            "make some space there"
            if code in FULL_CODES
            else "make it and its folder readable and writable for this user"
        )
        raise StoreError(f"{path} cannot be opened ({error}); {advice}.") from error


def _restore(path: Path) -> str:
    return RESTORE.format(root=path.parent)
