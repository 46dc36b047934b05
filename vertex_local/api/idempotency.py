"""Requests that are carried out once, however often they arrive: the `Idempotency-Key` header.

Vertex AI has no such header; without it, a creation whose answer was lost cannot be repeated.
https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable

from vertex_local.api.database.store import Store
from vertex_local.errors import ApiError, aborted
from vertex_local.json_types import Json

HEADER = "Idempotency-Key"
LONGEST_KEY = 255
MOST_KEYS = 10_000
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
    """The answers of the requests that came with a key, in the service's store.

    An error is not kept: nothing was done, and a repeat is a new attempt.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._in_progress: set[str] = set()
        self._changed = threading.Condition()
        with store.atomic() as connection:
            connection.execute(SCHEMA)

    def once(self, key: str, *, request: Json, carry_out: Callable[[], Json]) -> Json:
        """Return the answer that the key's first request got, or carry this one out.

        Raises:
            ApiError: INVALID_ARGUMENT (422) if the key came with another request, ABORTED if it is
                not known whether the request was carried out.
        """
        if not 0 < len(key) <= LONGEST_KEY:
            raise _refused(f"{HEADER} must have 1 to {LONGEST_KEY} characters, not {len(key)}.")
        text = json.dumps(request, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._enter(key)
        try:
            recorded = self._begin(key, digest)
            if recorded is not None:
                return recorded
            try:
                answer = carry_out()
            except BaseException:
                self._forget(key)
                raise
            self._record(key, answer)
            return answer
        finally:
            self._leave(key)

    def _enter(self, key: str) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: key not in self._in_progress, WAIT_TIMEOUT_SECONDS
            ):
                raise aborted(
                    f"The first request with {HEADER} {key} has not ended after "
                    f"{WAIT_TIMEOUT_SECONDS:.0f} s; repeat it later."
                )
            self._in_progress.add(key)

    def _leave(self, key: str) -> None:
        with self._changed:
            self._in_progress.discard(key)
            self._changed.notify_all()

    def _begin(self, key: str, digest: str) -> Json | None:
        """Return the recorded answer; None for a new key, which is recorded without an answer."""
        with self._store.atomic() as connection:
            row = connection.execute(
                "SELECT request, answer FROM idempotency_keys WHERE key = ?", (key,)
            ).fetchone()
            if row is None:
                connection.execute(
                    "DELETE FROM idempotency_keys WHERE created < ? OR position <= "
                    "(SELECT MAX(position) FROM idempotency_keys) - ?",
                    (time.time() - KEPT_SECONDS, MOST_KEYS),
                )
                connection.execute(
                    "INSERT INTO idempotency_keys (key, request, created) VALUES (?, ?, ?)",
                    (key, digest, time.time()),
                )
                return None
        request, answer = row
        if request != digest:
            raise _refused(f"{HEADER} {key} was used with another request; choose a new key.")
        if answer is None:
            raise aborted(
                f"The service ended while it carried out the request with {HEADER} {key}; look "
                "whether it was carried out before you repeat it with a new key."
            )
        recorded: Json = json.loads(answer)
        return recorded

    def _record(self, key: str, answer: Json) -> None:
        with self._store.atomic() as connection:
            connection.execute(
                "UPDATE idempotency_keys SET answer = ? WHERE key = ?", (json.dumps(answer), key)
            )

    def _forget(self, key: str) -> None:
        with self._store.atomic() as connection:
            connection.execute("DELETE FROM idempotency_keys WHERE key = ?", (key,))


def _refused(message: str) -> ApiError:
    """The draft's code for a key that does not fit."""
    return ApiError(code=422, status="INVALID_ARGUMENT", message=message)
