"""HTTP servers of tests, on 127.0.0.1 in a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=ThreadingHTTPServer)


class Handler(BaseHTTPRequestHandler):
    """Handler that sends whole bodies and logs nothing."""

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def respond(self, code: int, body: bytes, *, kind: str = "application/json") -> None:
        """Send a response."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Serve until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve with this handler until the block ends; yield the address, `127.0.0.1:PORT`."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"127.0.0.1:{server.server_port}"
