"""Pages of the requests that an endpoint has logged.

`GET projects/P/locations/L/endpoints/E/loggedRequests?pageSize=100&pageToken=` returns them, newest
first. Vertex AI does not have this resource and returns 404: query the BigQuery table instead.

    {"loggedRequests": [{
        "time": "2026-01-31T12:00:00.123456Z",   when the request arrived
        "deployedModelId": "1007", "modelVersionId": "2",
        "status": 200,                           HTTP status of the prediction server
        "milliseconds": 3.2,                     from the request to the response
        "request": {"instances": […]},           body; a string if it is not JSON
        "response": {"predictions": […]}}],      body of the prediction server
     "numDropped": 0,                            since the start of the service
     "nextPageToken": "…"}                       if there are more

A response has the logged requests of all predictions that ended before.
"""

import json
from typing import Any

import orjson

from vertex_local import Json
from vertex_local.api.pages import page_size
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.endpoints.request_log import log_of
from vertex_local.errors import invalid_argument

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_BYTES = 16 * 1024 * 1024
MAX_ID = 2**63 - 1


def list_logged_requests(service: Service, call: Call) -> Json:
    """GET endpoints/E/loggedRequests: the logged requests, newest first (see the module)."""
    name = call.name("endpoints")
    service.store.get(name)  # raises NOT_FOUND
    size = page_size(call.query.get("pageSize", ""), default=DEFAULT_PAGE_SIZE)
    before = _before(call.query.get("pageToken", ""))
    log = log_of(service)
    log.flush()
    shown: list[Json] = []
    page: Json = {"loggedRequests": shown, "numDropped": log.num_dropped(name)}
    num_bytes, last_id = 0, before
    for one_id, entry, request, response in log.read_back(name, before):
        num_bytes += len(request) + len(response)
        if len(shown) >= size or (shown and num_bytes > MAX_PAGE_BYTES):
            page["nextPageToken"] = str(last_id)
            break
        bodies = {"request": _value(request), "response": _value(response)}
        shown.append(json.loads(entry) | bodies)
        last_id = one_id
    return page


def _value(text: str) -> Any:
    """Return the value of a JSON text; other texts, also with NaN, as they are."""
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def _before(token: str) -> int:
    if not token:
        return MAX_ID
    if not (token.isascii() and token.isdigit() and int(token[:20]) <= MAX_ID):
        raise invalid_argument(
            f'pageToken "{token[:100]}" is not a token of this list; repeat the request without it.'
        )
    return int(token)
