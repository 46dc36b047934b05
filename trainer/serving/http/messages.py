"""Requests and responses of the prediction server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

JSON = "application/json"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class RequestError(Exception):
    """A request that fails: HTTP status and message."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass(slots=True, kw_only=True)
class Request:
    """A request.

    Attributes:
        path: without the query, decoded.
        headers: by name in lower case.
        body: empty if it is too large, or its JSON is parsed; `num_body_bytes` is its true size.
        began: when its first byte was read, in seconds of the monotonic clock.
        is_cancelled: set when the client has closed the connection.
    """

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    body: bytes = b""
    num_body_bytes: int = 0
    began: float = 0.0
    is_cancelled: bool = False

    def header(self, name: str) -> str:
        """Return a header's value, "" if it is not sent; the name is in lower case."""
        return self.headers.get(name.encode(), b"").decode("latin-1")


@dataclass(slots=True, kw_only=True)
class Response:
    """A response; `num_instances` is for the log."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    num_instances: int = 0

    def encode(self, *, date: bytes, closes: bool, has_body: bool = True) -> bytes:
        """Return the response as sent; `has_body` is False for the request method HEAD."""
        start = (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\nContent-Type: {self.content_type}"
            f"\r\nContent-Length: {len(self.body)}\r\n"
        )
        headers = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        close = "Connection: close\r\n" if closes else ""
        head = f"{start}{headers}{close}Date: ".encode("latin-1")
        return b"".join([head, date, b"\r\n\r\n", self.body if has_body else b""])


def json_response(content: Any, *, status: int = 200) -> Response:
    """Return a response with a JSON body."""
    return Response(status=status, body=orjson.dumps(content))


def error_response(error: RequestError) -> Response:
    """Return {"error": message}; with 503 the client is to try again after a second."""
    response = json_response({"error": str(error)}, status=error.status)
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers = {"Retry-After": "1"}
    return response
