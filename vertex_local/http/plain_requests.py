"""Plain prediction requests, which need nothing but their path and body.

    POST /v1/projects/P/locations/L/endpoints/E:predict HTTP/1.1

with a `Content-Length`, from this machine, and without a query, another origin, an idempotency key
or anything else that has an effect. A client repeats the same head with each request of a
connection, so that each head is parsed once.
"""

import re
from dataclasses import dataclass

from waitress.adjustments import Adjustments
from waitress.parser import HTTPRequestParser

# The limit of Vertex AI for predictions is 1.5 MB.
MAX_BODY_BYTES = 1_500_000
MAX_HEAD_BYTES = 4096
MAX_KNOWN = 1024
START = b"POST /v1/"
END = b"\r\n\r\n"
PATH = re.compile(
    r"/v1/projects/[\w-]{1,128}/locations/[\w-]{1,128}/endpoints/[\w-]{1,128}:predict", re.ASCII
)
LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")
# Header fields with an effect. A WSGI application handles requests that have one.
SPECIAL = {"CONTENT_ENCODING", "EXPECT", "IDEMPOTENCY_KEY", "ORIGIN", "UPGRADE"}


@dataclass(frozen=True, slots=True)
class PlainHead:
    """Path of a plain request, and the bytes of its body."""

    path: str
    num_bytes: int


class PlainHeads:
    """Parser of heads that remembers them."""

    def __init__(self) -> None:
        self._known: dict[bytes, PlainHead | None] = {}
        self._adjustments = Adjustments()

    def parse(self, head: bytes) -> PlainHead | None:
        """Return a head, which ends with an empty line; None if it is not plain."""
        try:
            return self._known[head]
        except KeyError:
            found = self._parse(head)
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[head] = found
        return found

    def _parse(self, head: bytes) -> PlainHead | None:
        if len(head) > MAX_HEAD_BYTES or not head.startswith(START):
            return None
        parser = HTTPRequestParser(self._adjustments)
        parser.received(head)
        parser.close()
        if parser.error or parser.version != "1.1" or not PATH.fullmatch(parser.request_uri):
            return None
        fields = parser.headers
        is_plain = (
            not parser.chunked
            and SPECIAL.isdisjoint(fields)
            and LOCAL_HOST.fullmatch(fields.get("HOST", ""))
            and fields.get("CONNECTION", "keep-alive").lower() == "keep-alive"
            and 0 < parser.content_length <= MAX_BODY_BYTES
        )
        return PlainHead(parser.request_uri, parser.content_length) if is_plain else None
