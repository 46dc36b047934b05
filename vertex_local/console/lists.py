"""Lists of resources in pages, newest first."""

import sqlite3

from vertex_local import Json
from vertex_local.api.query import select
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.pipelines.interrupted import BILLING_LABEL

SIZE = 50
NEWEST = "create_time desc"


def page(
    service: Service,
    call: Call,
    kind: str,
    *,
    parent: str = "projects/*",
    fields: str = "",
    filter_text: str = "",
    order_by: str = NEWEST,
    size: int = SIZE,
) -> Json:
    """Return the `rows` of a page of a kind, or of the last one, and the page's numbers.

    `fields` is the kind by whose fields it is filtered and sorted, if that is another one.
    """
    query = select.build(fields or kind, filter_text=filter_text, order_by=order_by)
    asked = int(text[:6]) if (text := call.query.get("page", "")).isdecimal() else 1
    collection, count, number = f"{parent}/{kind}", 0, 1

    def read(connection: sqlite3.Connection) -> tuple[list[int], str]:
        nonlocal count, number
        count = select.count(connection, collection, query)
        number = max(1, min(asked, -(-count // size)))
        keys = select.select(connection, collection, query, limit=number * size)
        return [int(key[-1]) for key in keys[(number - 1) * size :]], ""

    rows, _ = service.store.page(read)
    return {"rows": rows, "count": count, "page": number, "num_pages": -(-count // size)}


def run_of(service: Service, resource: Json) -> Json | None:
    """Return the run that has created a resource, by its labels; None without one."""
    labels, parent = resource.get("labels", {}), "/".join(resource["name"].split("/")[:4])
    query = f'labels.{BILLING_LABEL}="{labels.get(BILLING_LABEL, "-")}"'
    rows: list[Json] = page(service, Call({}), "pipelineJobs", filter_text=query, size=1)["rows"]
    ids = (value for key, value in labels.items() if key.endswith("_run"))
    named = (service.store.find(f"{parent}/pipelineJobs/{run_id}") for run_id in ids)
    return next(filter(None, (*rows, *named)), None)
