"""Responses of a prediction server, parsed from the bytes of a connection."""

import re
from dataclasses import dataclass

# Header of a response: number of requests that the server handles at once on a connection, with
# responses in their order. Each saves its own reads and writes, in both processes.
PIPELINED = b"x-pipelined-requests"
MAX_KNOWN_HEADS = 256
END = b"\r\n\r\n"
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})( .*)?")
CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
BODILESS = (b"204", b"304")
INTERIM = range(100, 200)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status and framing of a response; without a length it ends with the connection.

    `num_pipelined` is the number of requests that the server handles at once on a connection.
    """

    status: int
    num_bytes: int | None
    is_chunked: bool
    is_last: bool
    num_pipelined: int


def read_response(data: bytes | bytearray, start: int) -> tuple[ResponseHead, bytes, int] | None:
    """Return head, body and end of the response at `start`; None if it is not complete."""
    head, start = read_head(data, start)
    if head is None or (head.num_bytes is None and not head.is_chunked):
        return None
    if head.is_chunked:
        body, end = _join_chunks(data, start)
        return None if end is None else (head, body, end)
    end = start + (head.num_bytes or 0)
    return (head, bytes(data[start:end]), end) if len(data) >= end else None


def read_head(data: bytes | bytearray, start: int = 0) -> tuple[ResponseHead | None, int]:
    """Return the head of a response, None if it is not complete, and the start of the body."""
    end = data.find(END, start) + len(END)
    if end < len(END):
        return None, 0
    text = bytes(data[start:end])
    head = _known_heads.get(text)
    if head is None:
        if len(_known_heads) >= MAX_KNOWN_HEADS:
            _known_heads.clear()
        head = _known_heads[text] = _parse_head(text)
    if head.status in INTERIM:
        return read_head(data, end)
    return head, end


_known_heads: dict[bytes, ResponseHead] = {}


def _parse_head(text: bytes) -> ResponseHead:
    """Parse a head.

    Raises:
        ValueError: It is not HTTP.
    """
    first, *lines = text.removesuffix(END).split(b"\r\n")
    match = STATUS_LINE.fullmatch(first)
    if match is None:
        raise ValueError(f"a prediction server's response begins with {first[:100]!r}")
    fields = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    connection = fields.get(b"connection", b"").lower()
    pipelined = fields.get(PIPELINED, b"")
    length = b"0" if match[2] in BODILESS else fields.get(b"content-length")
    if length is not None and not length.isdigit():
        raise ValueError(f"a prediction server's Content-Length is {length[:100]!r}")
    return ResponseHead(
        status=int(match[2]),
        num_bytes=None if length is None else int(length),
        is_chunked=b"chunked" in fields.get(b"transfer-encoding", b"").lower(),
        num_pipelined=int(pipelined) if pipelined.isdigit() else 1,
        is_last=connection == b"close" or (match[1] == b"0" and connection != b"keep-alive"),
    )


def _join_chunks(data: bytes | bytearray, start: int) -> tuple[bytes, int | None]:
    """Return a chunked body and its end; None if it is not complete.

    Raises:
        ValueError: The size of a chunk is not hexadecimal.
    """
    parts: list[bytes] = []
    if data.find(END, start) < 0:  # the usual incomplete body; parsing it each time takes long
        return b"", None
    while (line_end := data.find(b"\r\n", start)) >= 0:
        text = bytes(data[start:line_end]).partition(b";")[0].strip()
        if not CHUNK_SIZE.fullmatch(text):  # int() also takes signs: a loop without end
            raise ValueError(f"a prediction server's chunk has the size {text[:100]!r}")
        size = int(text, 16)
        begin = line_end + 2
        if not size:
            end = data.find(END, line_end)  # after the trailers
            return b"".join(parts), end + len(END) if end >= 0 else None
        parts.append(bytes(data[begin : begin + size]))
        start = begin + size + 2
    return b"", None
