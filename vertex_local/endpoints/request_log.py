"""Log of an endpoint's predictions, Vertex AI's request-response logging.

An endpoint whose `predictRequestResponseLoggingConfig` is enabled logs a sample of its requests.
Vertex AI writes them to a BigQuery table. Here they are in ROOT/endpoints/E/requests.db, a SQLite
file, at most 64 MiB and 100,000 requests. A thread writes them; if it does not keep up, requests
are dropped and counted, and no prediction waits. `log_pages.py` returns them to clients.
"""

import json
import logging
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.service import Service
from vertex_local.errors import ApiError
from vertex_local.machine.clock import timestamp

logger = logging.getLogger(__name__)

CONFIG = "predictRequestResponseLoggingConfig"
KEY = "requestLog"  # in Service.running
FILE_NAME = "requests.db"

MAX_BYTES = 64 * 1024 * 1024
MAX_REQUESTS = 100_000
REMOVED_SHARE = 4  # above the limit of bytes, the oldest quarter is removed
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entry TEXT NOT NULL,
    request TEXT NOT NULL,
    response TEXT NOT NULL
)
"""
MAX_QUEUED_BYTES = 32 * 1024 * 1024
FLUSH_TIMEOUT_SECONDS = 5.0
WARNING_INTERVAL_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """Request that a prediction server responded to; `arrived` in seconds since 1970."""

    endpoint: str
    deployed_model_id: str
    model_version_id: str
    arrived: float
    milliseconds: float
    status: int
    request: bytes
    response: bytes


class RequestLog:
    """Logs of all endpoints, with the thread that writes them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._queue: list[RequestRecord] = []
        self._queued_bytes = 0
        self._is_writing = False
        self._dropped: Counter[str] = Counter()
        self._warned_at = -WARNING_INTERVAL_SECONDS
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()  # guards all of the above
        self._files = threading.Lock()  # held while a file is written; no prediction waits for it

    def put(self, request: RequestRecord) -> None:
        """Queue a request without waiting; drop it if too many bytes are queued."""
        num_bytes = len(request.request) + len(request.response)
        with self._changed:
            if self._queued_bytes + num_bytes > MAX_QUEUED_BYTES:
                self._drop(request.endpoint, "they arrive faster than they can be written")
                return
            self._queue.append(request)
            self._queued_bytes += num_bytes
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
                self._thread.start()
            elif len(self._queue) == 1:
                self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything queued is written, at most 5 s."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._queue and not self._is_writing, FLUSH_TIMEOUT_SECONDS
            )

    def num_dropped(self, endpoint: str) -> int:
        """Return the number of requests dropped since the start of the service."""
        with self._changed:
            return self._dropped[endpoint]

    def num_bytes(self, endpoint: str) -> int:
        """Return the size of an endpoint's log."""
        path = self._path(endpoint)
        return path.stat().st_size if path.exists() else 0

    def read_back(self, endpoint: str, before: int) -> Iterator[tuple[int, str, str, str]]:
        """Yield id, entry, request and response of the requests before an id, newest first."""
        if not self._path(endpoint).exists():
            return
        select = "SELECT id, entry, request, response FROM requests WHERE id < ? ORDER BY id DESC"
        try:
            with closing(self._connect(endpoint)) as connection:
                yield from connection.execute(select, (before,))
        except sqlite3.DatabaseError as error:
            message = f"{self._path(endpoint)} cannot be read: {error}; remove it to begin anew."
            raise ApiError("INTERNAL", message) from error

    def forget(self, endpoint: str) -> None:
        """Finish the log of a deleted endpoint; its folder may then be removed."""
        self.flush()
        with self._files, self._changed:
            self._dropped.pop(endpoint, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue)
                queue, self._queue, self._queued_bytes = self._queue, [], 0
                self._is_writing = True
            for endpoint in {one.endpoint for one in queue}:
                self._write(endpoint, [one for one in queue if one.endpoint == endpoint])

    def _write(self, endpoint: str, requests: list[RequestRecord]) -> None:
        try:
            insert = "INSERT INTO requests (entry, request, response) VALUES (?, ?, ?)"
            with self._files, closing(self._connect(endpoint)) as connection, connection:
                connection.executemany(insert, map(_row, requests))
                _remove_oldest(connection)
        except Exception as error:  # of any kind: the thread writes the logs of all endpoints
            with self._changed:
                self._drop(endpoint, str(error), count=len(requests))

    def _connect(self, endpoint: str) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path(endpoint))
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(SCHEMA)
        return connection

    def _path(self, endpoint: str) -> Path:
        return self._root / "endpoints" / ResourcePath.from_name(endpoint).id / FILE_NAME

    def _drop(self, endpoint: str, reason: str, *, count: int = 1) -> None:
        self._dropped[endpoint] += count
        if time.monotonic() - self._warned_at > WARNING_INTERVAL_SECONDS:
            self._warned_at = time.monotonic()
            number = self._dropped[endpoint]
            logger.warning("%s: %d requests are not logged: %s", endpoint, number, reason)


def log_of(service: Service) -> RequestLog:
    """Return the log of a service."""
    log = service.running.get(KEY) or service.running.setdefault(KEY, RequestLog(service.root))
    assert isinstance(log, RequestLog)
    return log


def sampling_rate(endpoint: Json) -> float:
    """Return the share of requests that an endpoint logs; 0 if logging is disabled."""
    config = endpoint.get(CONFIG, {})
    return float(config.get("samplingRate", 0.0)) if config.get("enabled") else 0.0


def is_sampled(rate: float) -> bool:
    """Draw whether to log a request."""
    return rate > 0 and random.random() < rate


def _row(logged: RequestRecord) -> tuple[str, str, str]:
    entry = {
        "time": timestamp(logged.arrived, timespec="microseconds"),
        "deployedModelId": logged.deployed_model_id,
        "modelVersionId": logged.model_version_id,
        "status": logged.status,
        "milliseconds": round(logged.milliseconds, 3),
    }
    # The bodies are not parsed: most are never read.
    request = logged.request.decode(errors="replace")
    return json.dumps(entry), request, logged.response.decode(errors="replace")


def _remove_oldest(connection: sqlite3.Connection) -> None:
    last = "SELECT MAX(id) FROM requests"
    connection.execute(f"DELETE FROM requests WHERE id <= ({last}) - ?", (MAX_REQUESTS,))
    sizes = ("page_size", "page_count", "freelist_count")
    size, count, free = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in sizes)
    if size * (count - free) > MAX_BYTES:
        part = f"(({last}) - MIN(id)) / {REMOVED_SHARE}"
        oldest = f"SELECT MIN(id) + {part} FROM requests"
        connection.execute(f"DELETE FROM requests WHERE id <= ({oldest})")
