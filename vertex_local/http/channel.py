"""Connections of the service.

A plain prediction request is forwarded without a thread. A request that cannot be parsed gets an
error response, which is the last one of its connection.
"""

import hmac
import json
import logging
import re
import time

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.task import ErrorTask

from vertex_local.errors import ApiError

logger = logging.getLogger(__name__)

TOO_LARGE = 413
# First bytes of other protocols: TLS, which gRPC uses by default, and HTTP/2 without it.
FOREIGN = (b"\x16\x03", b"PRI * HTTP/2")
HINT = (
    "a client speaks TLS or gRPC, which this service does not: for Google's SDK write "
    'api_transport="rest" and api_endpoint="http://127.0.0.1:%s"'
)
# The limit of Vertex AI for predictions is 1.5 MB.
MAX_BODY_BYTES = 1_500_000
PATH = re.compile(
    r"/v1/projects/[\w-]{1,128}/locations/[\w-]{1,128}/endpoints/[\w-]{1,128}:predict", re.ASCII
)
LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")
# Header fields with an effect. A WSGI application handles requests that have one.
SPECIAL = {"CONTENT_ENCODING", "EXPECT", "ORIGIN", "UPGRADE"}
STATUSES = {500: "INTERNAL", 501: "UNIMPLEMENTED"}


def is_admitted(token: str, authorization: str) -> bool:
    """Return whether a request has the token, if the service requires one."""
    if not token:
        return True
    return hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())


def is_plain(request: HTTPRequestParser) -> bool:
    """Return whether a request needs nothing but its path and body.

    `POST /v1/projects/P/locations/L/endpoints/E:predict HTTP/1.1` with a `Content-Length`, from
    this machine, and without a query, another origin or anything else.
    """
    if request.error or request.command != "POST" or not PATH.fullmatch(request.request_uri):
        return False
    fields = request.headers
    return bool(
        request.version == "1.1"
        and not request.chunked
        and SPECIAL.isdisjoint(fields)
        and LOCAL_HOST.fullmatch(fields.get("HOST", ""))
        and fields.get("CONNECTION", "keep-alive").lower() == "keep-alive"
        and 0 < request.content_length <= MAX_BODY_BYTES
    )


class _Refusal(ErrorTask):  # type: ignore[misc]
    """Response to a request that could not be parsed; the last one of its connection."""

    def execute(self) -> None:
        error = self.request.error
        message = str(error.body)
        if error.code == TOO_LARGE:
            maximum = self.channel.adj.max_request_body_size
            message = f"The body is too large: at most {maximum - 1:,} bytes are allowed."
        status = STATUSES.get(error.code, "INVALID_ARGUMENT")
        body = ApiError(status, message, code=error.code).to_body()
        data = json.dumps(body).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/json; charset=utf-8"))
        self.set_close_on_finish()
        self.content_length = len(data)
        self.write(data)


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection of the service."""

    error_task_class = _Refusal
    has_received = False

    def received(self, data: bytes) -> bool:
        """Read a part of the requests; close the connection of a client of another protocol."""
        if not self.has_received and data.startswith(FOREIGN):
            logger.warning(HINT, self.server.effective_port)
            self.handle_close()
            return False
        self.has_received = True
        return bool(super().received(data))

    def forward(self) -> bool:
        """Forward the next request, if it is plain; return False if it needs a thread."""
        request, forward = self.requests[0], self.server.forward
        sent = request.headers.get("AUTHORIZATION", "")
        if not (forward and is_plain(request) and is_admitted(self.server.token, sent)):
            return False
        body = request.get_body_stream()
        data = body.read()
        body.seek(0)
        return bool(forward(request.request_uri, data, self))

    def respond(self, status: str, body: bytes) -> None:
        """Send the response to a request that was forwarded."""
        head = (
            b"HTTP/1.1 %b\r\nContent-Length: %d\r\n"
            b"Content-Type: application/json; charset=utf-8\r\nDate: %b\r\n"
            b"Server: vertex-local\r\nX-Content-Type-Options: nosniff\r\n\r\n"
        )
        self._send_soon(head % (status.encode(), len(body), self.server.date()) + body)
        with self.requests_lock:
            if self.requests:  # unless it was closed
                self.requests.pop(0).close()
            if self.requests:
                self.server.add_task(self)
        self.last_activity = time.time()

    def decline(self) -> None:
        """Give a request that was forwarded a thread."""
        if self.connected:
            self.server.task_dispatcher.add_task(self)

    def _send_soon(self, data: bytes) -> None:
        if not self.connected:
            return
        num_sent = 0
        if not self.total_outbufs_len:
            try:
                num_sent = self.send(data)
            except OSError:
                self.handle_close()
                return
        if self.connected and num_sent < len(data):
            self.write_soon(data[num_sent:])
