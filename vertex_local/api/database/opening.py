"""Opening of the service's SQLite file; a file that it cannot use is not changed.

SQLite drops all changes after a damage of its journal without an error. The index beside the
journal (`vertex.db-shm`) is memory that outlives a killed process. It says how many frames were
committed, so their number after the recovery shows a loss. https://www.sqlite.org/walformat.html
"""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from vertex_local.errors import StartError
from vertex_local.machine import lost_and_found

INDEX_HEADER = "=12xBxxxI4x8xI4x8x"  # is_initialized, frames, first salt; two copies of 48 bytes
NUM_BACKFILLED_AT, NUM_BYTES = 96, 100
MAGIC = b"SQLite format 3\0"
PAGE_SIZE_AT, LEAST_PAGE = 16, 512  # https://www.sqlite.org/fileformat.html
APPLICATION_ID = 0x76746C63  # "vtlc"
# PRAGMA user_version of the schema; since LEAST_VERSION only the tables for lists have changed,
# which are made again from the resources.
LEAST_VERSION, VERSION = 4, 6
TABLES = {"resources", "ids"}
# Folders of the root whose contents belong to records of the database.
FOLDERS = ("models", "jobs", "batch", "pipelines", "endpoints")
RESTORE = "restore a copy of it, or move {root} away (mv {root} {root}.old) to start without it"
FULL_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
DAMAGE_CODES = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


@dataclass(frozen=True)
class Index:
    """Numbers of a journal's index: of committed frames, and of those also in the database."""

    salt: int  # changes with each reset of the journal
    num_frames: int
    num_backfilled: int


def _read_index(path: Path) -> Index | None:
    """Return the index of a database's journal; None if there is none."""
    try:
        with path.with_name(f"{path.name}-shm").open("rb") as file:
            data = file.read(NUM_BYTES)
    except FileNotFoundError:
        return None
    size = struct.calcsize(INDEX_HEADER)
    if len(data) < NUM_BYTES or data[:size] != data[size : 2 * size]:
        return None
    is_initialized, num_frames, salt = struct.unpack_from(INDEX_HEADER, data)
    if not is_initialized:
        return None
    (num_backfilled,) = struct.unpack_from("=I", data, NUM_BACKFILLED_AT)
    return Index(salt, num_frames, num_backfilled)


def _has_lost_changes(before: Index | None, after: Index | None) -> bool:
    """Return whether the recovery of a journal, between two indexes, has lost committed changes."""
    if before is None or after is None:
        return False
    if after.num_frames and after.salt == before.salt:
        return after.num_frames < before.num_frames
    # Another journal: a newer one, if the index is older than a power failure.
    return after.num_frames == 0 and before.num_backfilled < before.num_frames


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to the service's database; create a missing one.

    Raises:
        StartError: It is damaged, another program's, or cannot be read or written.
    """
    with _store_errors(path):
        index = _read_index(path)  # the next connection recovers, and rewrites it
        is_new = not (_exists(path) and _holds_records(path))
        if is_new and (folder := _used_folder(path.parent)):
            # Without records all folders would be strays.
            raise StartError(f"{path} is missing or empty, but {folder} is not; {_restore(path)}.")
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            if is_new:
                connection.execute("PRAGMA auto_vacuum = FULL")  # a commit returns deleted pages
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            # 256 pages, 1 MB: on a full disk the journal must fit into the reserve.
            connection.execute("PRAGMA wal_autocheckpoint = 256")
            connection.execute("SELECT * FROM sqlite_master").fetchone()  # recovers the journal
            if _has_lost_changes(index, _read_index(path)):
                _keep_journal(path)
        except BaseException:
            connection.close()
            raise
        return connection


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the schema."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def mark(connection: sqlite3.Connection) -> None:
    """Write the application id and the version of the schema."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _keep_journal(path: Path) -> None:
    """Keep a damaged journal aside, before the next change overwrites it."""
    damaged = _journal_of(path)
    lost_and_found.keep_copy(
        path.parent,
        damaged.name,
        damaged.read_bytes() if damaged.exists() else b"",
        problem=f"{damaged.name} was damaged or removed after the service was killed, so the last "
        "changes of models, endpoints, jobs and runs are lost; check the lists and repeat them",
    )


def _exists(path: Path) -> bool:
    """Return whether the file exists and is not empty; an empty one is a new database."""
    try:
        return path.stat().st_size > 0 or path.is_dir()
    except FileNotFoundError:
        return False


def _holds_records(path: Path) -> bool:
    """Check the file without writing to it; return whether it has the service's tables.

    Raises:
        StartError: The service cannot use it.
    """
    if path.is_dir():
        raise StartError(f"{path} is a folder, not the service's database; move it away.")
    with path.open("rb") as file:
        head = file.read(PAGE_SIZE_AT + 2)
    if not head.startswith(MAGIC):
        raise StartError(f"{path} is damaged: it is not a SQLite file; {_restore(path)}.")
    page_bytes = int.from_bytes(head[PAGE_SIZE_AT:])
    if not _has_journal(path) and (page_bytes < LEAST_PAGE or path.stat().st_size % page_bytes):
        raise StartError(f"{path} is damaged: its end is missing; {_restore(path)}.")
    with closing(sqlite3.connect(_uri(path), uri=True)) as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            problem = str(found).replace("\n", " ").removeprefix("*** in database main *** ")
            raise StartError(f"{path} is damaged ({problem}); {_restore(path)}.")
        if not _is_ours(path, connection):
            return False
        for _ in connection.execute("SELECT name FROM resources"):
            pass  # reading a text checks its encoding
    return True


def _uri(path: Path) -> str:
    """Return a URI that opens the file without creating a journal beside it, if there is none."""
    mode = "mode=ro" if _has_journal(path) else "immutable=1"
    return f"file:{quote(str(path))}?{mode}"


def _has_journal(path: Path) -> bool:
    """Return whether a killed service has left a journal with its last changes."""
    journal_path = _journal_of(path)
    return journal_path.exists() and journal_path.stat().st_size > 0


def _journal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _is_ours(path: Path, connection: sqlite3.Connection) -> bool:
    """Return whether it is the service's database; False if it has no tables yet."""
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {str(row[0]) for row in rows}
    if owner == 0 and not tables:
        return False
    if owner != APPLICATION_ID or not tables >= TABLES:
        raise StartError(
            f"{path} is another program's database and was not changed; move it away, or choose "
            "another --root."
        )
    if not LEAST_VERSION <= (version := version_of(connection)) <= VERSION:
        raise StartError(
            f"{path} was written by another version of the service (schema {version}, supported: "
            f"{LEAST_VERSION} to {VERSION}); use that version, or choose another --root."
        )
    return True


def _used_folder(root: Path) -> Path | None:
    """Return a folder with files of resources, or None."""
    for name in FOLDERS:
        if any(path.is_dir() for path in (root / name).glob("*")):
            return root / name
    return None


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Convert errors of the file system and of SQLite to StartError."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"{path} cannot be read: {error.strerror}; make it readable and writable for this "
            "user, or choose another --root."
        ) from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # 0: a text is not UTF-8
        if code in (0, *DAMAGE_CODES):
            raise StartError(f"{path} is damaged ({error}); {_restore(path)}.") from error
        advice = (
            "free some space there"
            if code in FULL_CODES
            else "make it and its folder readable and writable for this user"
        )
        raise StartError(f"{path} cannot be opened ({error}); {advice}.") from error


def _restore(path: Path) -> str:
    return RESTORE.format(root=path.parent)
