"""Plain prediction requests, which need nothing but their path and body.

    POST /v1/projects/P/locations/L/endpoints/E:predict HTTP/1.1

with a `Content-Length`, from this machine, and without a query, another origin or anything else
"""

import re

from waitress.parser import HTTPRequestParser

# The limit of Vertex AI for predictions is 1.5 MB.
MAX_BODY_BYTES = 1_500_000
PATH = re.compile(
    r"/v1/projects/[\w-]{1,128}/locations/[\w-]{1,128}/endpoints/[\w-]{1,128}:predict", re.ASCII
)
LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")
# Header fields with an effect. A WSGI application handles requests that have one.
SPECIAL = {"CONTENT_ENCODING", "EXPECT", "ORIGIN", "UPGRADE"}


def is_plain(request: HTTPRequestParser) -> bool:
    """Return whether a request needs nothing but its path and body."""
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
