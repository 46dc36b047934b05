"""Time of one page of a long list against the time of the whole list.

The service runs in this process, behind its own HTTP server on 127.0.0.1; the client times each
request. "ours" is the median time of a page, "theirs" that of the whole list.
"""

import argparse
import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

import requests

from benchmarks.support.report import report
from vertex_local import server
from vertex_local.api.database.store import Store
from vertex_local.api.service import Service
from vertex_local.app import Application
from vertex_local.http import server as http_server

PARENT = "projects/demo/locations/us-central1"
QUERIES = {
    "first page": {},
    "filter by label": {"filter": "labels.trainyard_run=run-7"},
    "filter by state": {"filter": "state=JOB_STATE_FAILED"},
    "filter without a match": {"filter": 'display_name="*x" OR state=JOB_STATE_PAUSED'},
    "order by time": {"orderBy": "create_time desc"},
    "filter and order": {"filter": "NOT state=JOB_STATE_FAILED", "orderBy": "state, end_time desc"},
}
MAX_PAGE_SIZE = 1000


def main() -> None:
    """Fill a store, time the requests, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument("--page", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=30, help="default: %(default)s")
    parser.add_argument(
        "--body-bytes",
        type=int,
        default=2000,
        help="size of a job's record; that of a PipelineJob includes the whole pipeline. "
        "default: %(default)s",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, requests.Session() as session:
        store = Store(Path(folder) / "vertex.db")
        fill(store, num_items=options.items, body_bytes=options.body_bytes)
        url = f"{start(store, Path(folder))}/v1/{PARENT}/customJobs"
        session.trust_env = False
        whole = statistics.median(whole_list_ms(session, url) for _ in range(3))
        for name, query in QUERIES.items():
            page_query = {**query, "pageSize": options.page}
            report(
                f"{name}, {options.page} of {options.items:,} jobs",
                ours=page_ms(session, url, page_query, options.repeats),
                theirs=whole,
                unit="ms",
                lower_is_better=True,
            )
        tokens = tokens_of(session, url, options.page)
        report(
            f"middle page, {options.page} of {options.items:,} jobs",
            ours=page_ms(
                session,
                url,
                {"pageSize": options.page, "pageToken": tokens[len(tokens) // 2]},
                options.repeats,
            ),
            theirs=whole,
            unit="ms",
            lower_is_better=True,
        )
    sys.stdout.flush()
    os._exit(0)  # the server's threads


def fill(store: Store, *, num_items: int, body_bytes: int) -> None:
    """Add jobs of some years."""
    states = ["SUCCEEDED"] * 8 + ["FAILED", "CANCELLED"]
    with store.atomic():
        for number in range(num_items):
            moment = f"2026-{1 + number % 12:02}-{1 + number % 28:02}T{number % 24:02}:00:00.5Z"
            name = f"{PARENT}/customJobs/{number}"
            body = {
                "name": name,
                "displayName": f"job {number}",
                "state": f"JOB_STATE_{states[number % len(states)]}",
                "createTime": moment,
                "updateTime": moment,
                "endTime": moment,
                "labels": {"trainyard_run": f"run-{number % 50}", "team": "a"},
                "jobSpec": {"workerPoolSpecs": [{"containerSpec": {"args": ["x" * body_bytes]}}]},
            }
            store.insert(name, body)


def start(store: Store, root: Path) -> str:
    """Serve the store; return the url."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    routes = [route for module in server.MODULES for route in module.ROUTES]
    http_server.start(Application(Service(root=root, store=store, url=url), routes), listener)
    return url


def page_ms(
    session: requests.Session, url: str, query: dict[str, object], num_repeats: int
) -> float:
    """Return the median time of a request."""
    return statistics.median(request_ms(session, url, query)[0] for _ in range(num_repeats))


def request_ms(
    session: requests.Session, url: str, query: dict[str, object]
) -> tuple[float, dict[str, object]]:
    """Return the time of a request, without the parsing of its JSON, and the response."""
    began = time.perf_counter()
    response = session.get(url, params=query, timeout=60)
    took_ms = 1000 * (time.perf_counter() - began)
    assert response.ok, response.text
    return took_ms, response.json()


def whole_list_ms(session: requests.Session, url: str) -> float:
    """Return the time of the whole list, in pages of the maximum size."""
    total_ms, query = 0.0, {"pageSize": MAX_PAGE_SIZE}
    while True:
        took_ms, response = request_ms(session, url, query)
        total_ms += took_ms
        if "nextPageToken" not in response:
            return total_ms
        query = {**query, "pageToken": response["nextPageToken"]}


def tokens_of(session: requests.Session, url: str, page: int) -> list[str]:
    """Return the tokens of all pages but the first."""
    tokens: list[str] = []
    while True:
        token = tokens[-1] if tokens else ""
        _, response = request_ms(session, url, {"pageSize": page, "pageToken": token})
        if "nextPageToken" not in response:
            return tokens
        tokens.append(str(response["nextPageToken"]))


if __name__ == "__main__":
    main()
