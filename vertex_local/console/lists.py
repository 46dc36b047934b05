"""Lists of resources, newest first, in pages."""

import sqlite3
from collections.abc import Callable

from vertex_local import Json
from vertex_local.api.query import select
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.console import words

SIZE = 50
NEWEST = "create_time desc"


def page(
    service: Service,
    call: Call,
    kind: str,
    shown: Callable[[Json], Json],
    *,
    fields: str = "",
    filter_text: str = "",
    order_by: str = NEWEST,
    size: int = SIZE,
) -> Json:
    """Return the `rows` of a page of a kind, each as `shown` returns it, and the page's numbers.

    `fields` is the kind by whose fields the list is filtered and sorted.

    Raises:
        ApiError: INVALID_ARGUMENT.
    """
    query = select.build(fields or kind, filter_text=filter_text, order_by=order_by)
    number = int(text) if (text := call.query.get("page", "")).isdecimal() else 1
    count = 0

    def read(connection: sqlite3.Connection) -> tuple[list[int], str]:
        nonlocal count
        keys = select.select(connection, f"projects/*/{kind}", query, limit=-1)
        count = len(keys)
        return [int(key[-1]) for key in keys[(number - 1) * size : number * size]], ""

    records, _ = service.store.page(read)
    return {
        "rows": [shown(record) for record in records],
        "count": count,
        "page": number,
        "num_pages": -(-count // size),
    }


def own_labels(record: Json) -> dict[str, str]:
    """Return the labels of a resource that say more than its name."""
    names = (record.get("displayName"), words.id_of(record["name"]))
    labels = record.get("labels", {}).items()
    return {k: v for k, v in labels if v not in names and not k.startswith("vertex-ai-")}
