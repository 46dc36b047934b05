"""Etags: the state of a resource in one text, for consistent read-modify-write updates."""

import hashlib
import json

from vertex_local import Json
from vertex_local.errors import ApiError


def etag_of(*parts: Json) -> str:
    """Return a text that changes with each change of a record's parts."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def with_etag(record: Json) -> Json:
    """Return a record as clients see it."""
    return {**record, "etag": etag_of(record)}


def check(request: Json, etag: str, name: str) -> None:
    """Raise ABORTED if a request has another etag than the resource (google.aip.dev/154)."""
    if request.get("etag", etag) != etag:
        problem = f"{name} was changed meanwhile: its etag is {etag}; get it again."
        raise ApiError("ABORTED", problem)
