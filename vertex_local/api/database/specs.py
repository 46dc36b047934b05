"""Specifications of pipeline runs: each is stored once, since it is most of a run's record.

In the record is only its `pipelineInfo`, by which runs are filtered.
"""

import hashlib
import sqlite3
from functools import lru_cache

import orjson

from vertex_local import Json

FIELD, INFO = "pipelineSpec", "pipelineInfo"
_decoded = lru_cache(maxsize=1)(orjson.loads)  # the runs of a page often have the same one
SCHEMA = """
CREATE TABLE IF NOT EXISTS specs (digest TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spec_uses (name TEXT PRIMARY KEY, digest TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS spec_uses_by_digest ON spec_uses (digest);
"""


def without(body: Json) -> Json:
    """Return a record without its specification."""
    spec = body.get(FIELD, {})
    return {**body, FIELD: {INFO: spec[INFO]}} if INFO in spec else body


def put(connection: sqlite3.Connection, name: str, body: Json) -> None:
    """Store the specification of a run, if the record has one."""
    if isinstance(body.get(FIELD), dict):
        data = orjson.dumps(body[FIELD])
        digest = hashlib.sha256(data).hexdigest()
        connection.execute("INSERT OR IGNORE INTO specs VALUES (?, ?)", (digest, data.decode()))
        connection.execute("INSERT INTO spec_uses VALUES (?, ?)", (name, digest))


def join(connection: sqlite3.Connection, run: Json) -> Json:
    """Return the record of a run with its specification, without one if that was damaged."""
    query = "SELECT body FROM spec_uses JOIN specs USING (digest) WHERE name = ?"
    row = connection.execute(query, (run["name"],)).fetchone()
    others = {key: value for key, value in run.items() if key != FIELD}
    return {**others, FIELD: _decoded(row[0])} if row else others


def remove(connection: sqlite3.Connection, name: str) -> None:
    """Delete the specification of a run, unless another has the same."""
    connection.execute("DELETE FROM spec_uses WHERE name = ?", (name,))
    used = "SELECT 1 FROM spec_uses WHERE spec_uses.digest = specs.digest"
    connection.execute(f"DELETE FROM specs WHERE NOT EXISTS ({used})")
