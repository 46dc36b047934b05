"""A repository for packages on 127.0.0.1 with Artifact Registry's rules.

A version is the SHA-256 of its content and never changes; a tag points at one version and moves.
https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template
"""

import email.parser
import email.policy
import hashlib
import json
import re
from contextlib import AbstractContextManager
from http.server import ThreadingHTTPServer

import yaml

from vertex_local.tests.support.http_server import Handler, running

TOKEN = "test-token"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{3,127}")


class Repository(ThreadingHTTPServer):
    """Keeps `versions` by package and version, and `tags` by package and tag."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.versions: dict[tuple[str, str], bytes] = {}
        self.tags: dict[tuple[str, str], str] = {}
        self.num_requests = 0
        self.failures: list[int] = []  # codes of the next responses

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT/demo/repo`."""
        return f"http://127.0.0.1:{self.server_port}/demo/repo"

    def write_client_config(self, path) -> None:
        """Write the settings that direct a client of the official address to this server."""
        urls = {
            "upload_url": self.url,
            "download_version_url": self.url + "/{package_name}/{version}",
            "download_tag_url": self.url + "/{package_name}/{tag}",
        }
        path.write_text(json.dumps(urls))


class _Handler(Handler):
    server: Repository

    def do_POST(self) -> None:
        if not self._is_allowed():
            return
        fields = self._form()
        content = fields["content"]
        name = str((yaml.safe_load(content) or {}).get("pipelineInfo", {}).get("name"))
        if not NAME.fullmatch(name):
            self._say(400, f"invalid package name {name!r}")
            return
        version = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.server.versions.setdefault((name, version), content)
        for tag in filter(None, fields.get("tags", b"").decode().split(",")):
            self.server.tags[name, tag] = version
        self._say(200, f"{name}/{version}")

    def do_GET(self) -> None:
        if not self._is_allowed():
            return
        *_, name, end = self.path.split("/")
        version = self.server.tags.get((name, end), end)
        content = self.server.versions.get((name, version))
        self._say(*((404, f"{name}/{end} not found") if content is None else (200, content)))

    def _is_allowed(self) -> bool:
        self.server.num_requests += 1
        if self.server.failures:
            self._say(self.server.failures.pop(), "not now")
            return False
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            return True
        self._say(401, "no valid credentials")
        return False

    def _form(self) -> dict[str, bytes]:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        parts = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + self.body())
        return {
            part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
            for part in parts.iter_parts()
        }

    def _say(self, code: int, text: str | bytes) -> None:
        self.respond(code, text if isinstance(text, bytes) else text.encode(), kind="text/plain")


def serving() -> AbstractContextManager[Repository]:
    """Serve a repository until the block ends."""
    return running(Repository())
