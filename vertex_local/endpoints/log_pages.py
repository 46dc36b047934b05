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
import re
from typing import Any

from vertex_local import Json
from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.endpoints import log_files
from vertex_local.endpoints.log_files import Position
from vertex_local.endpoints.request_log import log_of
from vertex_local.errors import invalid_argument

DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 100, 1000
MAX_PAGE_BYTES = 16 * 1024 * 1024
TOKEN = re.compile(r"([0-9]{1,8})-([0-9]{1,12})")


def list_logged_requests(service: Service, call: Call) -> Json:
    """GET endpoints/E/loggedRequests: the logged requests, newest first (see the module)."""
    name = f"{call.parent}/endpoints/{call.args['endpoint']}"
    service.store.get(name)  # raises NOT_FOUND
    size, before = _page_size(call), _position(call.query.get("pageToken", ""))
    log = log_of(service)
    log.flush()
    shown: list[Json] = []
    num_bytes, position, has_more = 0, before, False
    for line_position, line in log_files.read_back(log.folder_of(name), before):
        if len(shown) >= size or (shown and num_bytes + len(line) > MAX_PAGE_BYTES):
            has_more = True
            break
        position = line_position
        num_bytes += len(line)
        if (one := _parse(line)) is not None:
            shown.append(one)
    found: Json = {"loggedRequests": shown, "numDropped": log.num_dropped(name)}
    if has_more and position:
        found["nextPageToken"] = f"{position.segment}-{position.offset}"
    return found


def _parse(line: bytes) -> Json | None:
    """Return the logged request of a line; None for the half line of a killed service."""
    try:
        one: Json = json.loads(line)
        return {**one, "request": _value(one["request"]), "response": _value(one["response"])}
    except (ValueError, KeyError, TypeError):
        return None


def _value(text: str) -> Any:
    """Return the value of a JSON text; other texts, also with NaN, as they are."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _page_size(call: Call) -> int:
    text = call.query.get("pageSize", "")
    if text and not (text.isascii() and text.isdigit()):
        raise invalid_argument(f'pageSize "{text}" is not valid; write a number of at least 0.')
    return min(int(text[:9] or 0), MAX_PAGE_SIZE) or DEFAULT_PAGE_SIZE


def _position(token: str) -> Position | None:
    if not token:
        return None
    match = TOKEN.fullmatch(token)
    if match is None:
        raise invalid_argument(
            f'pageToken "{token[:100]}" is not a token of this list; repeat the request without it.'
        )
    return Position(int(match[1]), int(match[2]))
