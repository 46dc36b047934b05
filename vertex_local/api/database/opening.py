"""Opens the service's SQLite file, if it is one; anything else is left as it is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

MAGIC = b"SQLite format 3\0"
PAGE_SIZE_AT, LEAST_PAGE = 16, 512  # https://www.sqlite.org/fileformat.html
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
        if not (_exists(path) and _holds_records(path)) and (left := _left_folder(path.parent)):
            # A service without records would remove what belongs to none.
            raise StoreError(f"{path} is missing or empty, but {left} is not; {_restore(path)}.")
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            # Of 1 MB: where the disk is full, the journal has to fit into the reserve.
            connection.execute("PRAGMA wal_autocheckpoint = 256")
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


def _exists(path: Path) -> bool:
    """Tell whether there is a file with something in it; an empty one is a new one."""
    try:
        return path.stat().st_size > 0 or path.is_dir()
    except FileNotFoundError:
        return False


def _holds_records(path: Path) -> bool:
    """Read the file without writing to it; tell whether it has the service's tables.

    Raises:
        StoreError: The service cannot use it.
    """
    if path.is_dir():
        raise StoreError(f"{path} is a folder, not the service's database; move it away.")
    with path.open("rb") as file:
        head = file.read(PAGE_SIZE_AT + 2)
    if not head.startswith(MAGIC):
        raise StoreError(f"{path} is damaged: it is not a SQLite file; {_restore(path)}.")
    page_bytes = int.from_bytes(head[PAGE_SIZE_AT:])
    if not _has_journal(path) and (page_bytes < LEAST_PAGE or path.stat().st_size % page_bytes):
        raise StoreError(f"{path} is damaged: its end is missing; {_restore(path)}.")
    with closing(sqlite3.connect(_uri(path), uri=True)) as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            problem = str(found).replace("\n", " ").removeprefix("*** in database main *** ")
            raise StoreError(f"{path} is damaged ({problem}); {_restore(path)}.")
        if not _is_ours(path, connection):
            return False
        for name, _, is_json in connection.execute(  # reading a text checks that it is one
            "SELECT name, body, json_valid(body) FROM resources"
        ):
            if not is_json:
                raise StoreError(f"{path} is damaged (the record of {name}); {_restore(path)}.")
    return True


def _uri(path: Path) -> str:
    """Return how to open the file without making others beside it, if none is needed."""
    mode = "mode=ro" if _has_journal(path) else "immutable=1"
    return f"file:{quote(str(path))}?{mode}"


def _has_journal(path: Path) -> bool:
    """Tell whether a service that was killed has left a journal of what it wrote last."""
    journal = path.with_name(f"{path.name}-wal")
    return journal.exists() and journal.stat().st_size > 0


def _is_ours(path: Path, connection: sqlite3.Connection) -> bool:
    """Tell whether it is the service's; not so if it has no tables: it was just being made."""
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {str(row[0]) for row in rows}
    if owner == 0 and not tables:
        return False
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
    return True


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
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # none: a text is not UTF-8
        if code in (0, *DAMAGE_CODES):
            raise StoreError(f"{path} is damaged ({error}); {_restore(path)}.") from error
        advice = (
            "make some space there"
            if code in FULL_CODES
            else "make it and its folder readable and writable for this user"
        )
        raise StoreError(f"{path} cannot be opened ({error}); {advice}.") from error


def _restore(path: Path) -> str:
    return RESTORE.format(root=path.parent)
