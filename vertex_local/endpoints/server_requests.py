"""HTTP requests to a prediction server, and the errors of its responses."""

import http.client
import json
from typing import Any

import orjson

from vertex_local.errors import ApiError, invalid_argument
from vertex_local.machine.ports import LOOPBACK

MAX_MESSAGE_CHARACTERS = 4000


class NotAnsweredError(ApiError):
    """UNAVAILABLE: a server ended or was stopped before it responded; the request may be retried.

    `was_sent` is true if the server may have received the request, which may have made it end.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__("UNAVAILABLE", message)
        self.was_sent = was_sent


def exchange(
    method: str, port: int, route: str, data: bytes | None = None, *, timeout_seconds: float
) -> tuple[int, bytes]:
    """Send a request, perhaps with JSON; return the status and the body of the response.

    Raises:
        OSError, http.client.HTTPException: There was no response, or not in time.
    """
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=timeout_seconds)
    try:
        connection.request(method, route, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def parse_predictions(data: bytes, *, title: str) -> Any:
    """Return the `predictions` of a successful response, which is strict JSON."""
    try:
        response = orjson.loads(data)
    except ValueError as error:
        raise ApiError("INTERNAL", f"{title} did not return JSON: {error}") from None
    if not isinstance(response, dict) or "predictions" not in response:
        raise ApiError("INTERNAL", f'{title} returned no "predictions": {str(response)[:200]}')
    return response["predictions"]


def error_of(status: int, data: bytes) -> ApiError:
    """Return the error for an unsuccessful response, with the message of the server."""
    text = data.decode(errors="replace")
    try:
        body = json.loads(text)
        error = body.get("error", body) if isinstance(body, dict) else body
        text = error.get("message", text) if isinstance(error, dict) else str(error)
    except ValueError:
        pass
    text = text.strip()[:MAX_MESSAGE_CHARACTERS] or "(no message)"
    if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
        return NotAnsweredError(text, was_sent=True)
    if status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return ApiError("INVALID_ARGUMENT", text, code=status)
    if 400 <= status < 500:  # noqa: PLR2004
        return invalid_argument(text)
    return ApiError("INTERNAL", f"The prediction server returned {status}: {text}")


def is_json(data: bytes) -> bool:
    """Return whether a body is a complete JSON text."""
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
