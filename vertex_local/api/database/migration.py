"""Conversion of the records of schemas up to `LAST`; a damaged one stays, to be kept aside."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress

import orjson

from vertex_local import Json
from vertex_local.api.database import specs

LAST = 3
DAMAGES = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def convert(connection: sqlite3.Connection, insert: Callable[[str, Json], None]) -> None:
    """Store each model version and each specification of runs in a row of its own."""
    query = "SELECT name FROM resources WHERE collection GLOB ? OR collection GLOB ?"
    kinds = "projects/*/pipelineJobs", "projects/*/models"
    for (name,) in connection.execute(query, kinds).fetchall():
        query = "SELECT CAST(body AS BLOB) FROM resources WHERE name = ?"
        data = connection.execute(query, (name,)).fetchone()[0]
        with suppress(*DAMAGES):
            body, versions = _split(orjson.loads(data))
            specs.put(connection, name, body)
            values = json.dumps(specs.without(body)), name
            connection.execute("UPDATE resources SET body = ? WHERE name = ?", values)
            for version in versions:
                insert(version["name"], version)


def _split(record: Json) -> tuple[Json, list[Json]]:
    if "versions" not in record:
        return record, []
    model = {**record, "aliases": {}}
    versions = model.pop("versions")
    for version in versions:
        version["name"] = f"{record['name']}/versions/{version['versionId']}"
        model["aliases"] |= dict.fromkeys(version.pop("versionAliases"), version["versionId"])
    default = model["aliases"]["default"]
    [labels] = [one.get("labels", {}) for one in versions if one["versionId"] == default]
    return {**model, "versionLabels": labels}, versions
