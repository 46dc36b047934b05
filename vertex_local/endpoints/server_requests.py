"""HTTP requests to a prediction server, and the errors that its responses stand for."""

import http.client
import json

from vertex_local.endpoints.serving_contract import HOST
from vertex_local.errors import ApiError, internal, invalid_argument
from vertex_local.http import strict_json
from vertex_local.json_types import Json

MAX_MESSAGE_CHARACTERS = 4000


class NotAnsweredError(ApiError):
    """UNAVAILABLE: a server ended, or is ending, before it answered; the request may be repeated.

    `was_sent` tells whether the server may have seen the request: it may be what ended it.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(code=503, status="UNAVAILABLE", message=message)
        self.was_sent = was_sent


def exchange(
    port: int, method: str, route: str, body: Json | None = None, *, timeout_seconds: float
) -> tuple[int, bytes]:
    """Return the status and body of a request's response.

    Raises:
        OSError, http.client.HTTPException: there was none; TimeoutError if none came in time.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_seconds)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, route, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        has_length = response.length is not None or response.chunked
        content = response.read()
        is_prediction = body is not None and response.status == http.HTTPStatus.OK
        if is_prediction and not has_length and not _is_json(content):
            raise http.client.IncompleteRead(content)  # cut off by the end of the process
        return response.status, content
    finally:
        connection.close()


def parse_predictions(data: bytes, *, title: str) -> Json:
    """Return the body of a successful response, which must have `predictions`."""
    try:
        answer = strict_json.parse(data)
    except ValueError as error:
        raise internal(f"{title} answered what is not JSON: {error}") from None
    if not isinstance(answer, dict) or "predictions" not in answer:
        raise internal(f'{title} answered without "predictions": {str(answer)[:200]}')
    return answer


def error_of(status: int, data: bytes) -> ApiError:
    """Return the error of a response that is none of success, with the server's own message."""
    text = data.decode(errors="replace")
    try:
        answer = json.loads(text)
        error = answer.get("error", answer) if isinstance(answer, dict) else answer
        text = error.get("message", text) if isinstance(error, dict) else str(error)
    except ValueError:
        pass
    text = text.strip()[:MAX_MESSAGE_CHARACTERS] or "(no message)"
    if status == http.HTTPStatus.SERVICE_UNAVAILABLE:
        return NotAnsweredError(text, was_sent=True)
    if status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return ApiError(code=status, status="INVALID_ARGUMENT", message=text)
    if 400 <= status < 500:  # noqa: PLR2004
        return invalid_argument(text)
    return internal(f"The prediction server answered {status}: {text}")


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
