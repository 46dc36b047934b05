"""The `Idempotency-Key` header: a repeated request is executed once.

Vertex AI has no such header. Without it, a client that received no response to a creation cannot
safely repeat it.
https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable

from vertex_local import Json
from vertex_local.api.database.store import Store
from vertex_local.errors import ApiError, aborted

HEADER = "Idempotency-Key"
MAX_KEY_CHARACTERS = 255
MAX_KEYS = 10_000
KEPT_SECONDS = 24 * 3600.0
WAIT_TIMEOUT_SECONDS = 25.0  # for the first request of a key; below the timeout of most clients

SCHEMA = """
CREATE TABLE IF NOT EXISTS idempotency_keys (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    answer TEXT,
    created REAL NOT NULL
)
"""


class IdempotencyKeys:
    """Responses to requests with a key, in the service's store.

    An error is not stored: the request changed nothing, and a repetition is executed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._in_progress: set[str] = set()
        self._changed = threading.Condition()
        with store.atomic() as connection:
            connection.execute(SCHEMA)

    def once(self, key: str, *, request: Json, execute: Callable[[], Json]) -> Json:
        """Execute a request, or return the stored response to its key.

        Raises:
            ApiError: INVALID_ARGUMENT (422) if the key was used with another request; ABORTED if
                it is unknown whether the request was executed.
        """
        if not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise _refused(
                f"{HEADER} must have 1 to {MAX_KEY_CHARACTERS} characters, not {len(key)}."
            )
        text = json.dumps(request, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._enter(key)
        try:
            recorded = self._begin(key, digest)
            if recorded is not None:
                return recorded
            try:
                response = execute()
            except BaseException:
                self._forget(key)
                raise
            self._record(key, response)
            return response
        finally:
            self._leave(key)

    def _enter(self, key: str) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: key not in self._in_progress, WAIT_TIMEOUT_SECONDS
            ):
                raise aborted(
                    f"The first request with {HEADER} {key} is still running after "
                    f"{WAIT_TIMEOUT_SECONDS:.0f} s; repeat this one later."
                )
            self._in_progress.add(key)

    def _leave(self, key: str) -> None:
        with self._changed:
            self._in_progress.discard(key)
            self._changed.notify_all()

    def _begin(self, key: str, digest: str) -> Json | None:
        """Return the stored response; store a new key without one and return None."""
        with self._store.atomic() as connection:
            row = connection.execute(
                "SELECT request, answer FROM idempotency_keys WHERE key = ?", (key,)
            ).fetchone()
            if row is None:
                connection.execute(
                    "DELETE FROM idempotency_keys WHERE created < ? OR position <= "
                    "(SELECT MAX(position) FROM idempotency_keys) - ?",
                    (time.time() - KEPT_SECONDS, MAX_KEYS),
                )
                connection.execute(
                    "INSERT INTO idempotency_keys (key, request, created) VALUES (?, ?, ?)",
                    (key, digest, time.time()),
                )
                return None
        request, response = row
        if request != digest:
            raise _refused(f"{HEADER} {key} was used with another request; choose a new key.")
        if response is None:
            raise aborted(
                f"The service stopped during the request with {HEADER} {key}; check whether it "
                "was executed before you repeat it with a new key."
            )
        recorded: Json = json.loads(response)
        return recorded

    def _record(self, key: str, response: Json) -> None:
        with self._store.atomic() as connection:
            connection.execute(
                "UPDATE idempotency_keys SET answer = ? WHERE key = ?", (json.dumps(response), key)
            )

    def _forget(self, key: str) -> None:
        with self._store.atomic() as connection:
            connection.execute("DELETE FROM idempotency_keys WHERE key = ?", (key,))


def _refused(message: str) -> ApiError:
    """Return the error for a wrong key, with the HTTP code of the draft."""
    return ApiError(code=422, status="INVALID_ARGUMENT", message=message)
