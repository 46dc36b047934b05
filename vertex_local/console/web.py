"""Views as routes of the service: templates, security headers, and forms with their tokens."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from vertex_local import Json
from vertex_local.api.fields import UNFINISHED, run_facts
from vertex_local.api.routes import Call, Message, RawRoute
from vertex_local.api.service import Service
from vertex_local.console import words
from vertex_local.errors import ApiError

RESOURCE = "<project>/<location>/<id>"
SECRET = secrets.token_bytes(32)  # of this process: forms of an earlier service are refused
SECURITY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# Other people's page: no script, and an origin of its own, whose requests the service refuses.
FOREIGN_SECURITY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MAX_FILE_BYTES = 50_000_000
# Address of a page of the console, at the port that the service had when a page was written.
SECTIONS = "|".join(words.SECTIONS.values())
OWN_ADDRESS = re.compile(
    rf'(?<=href=")http://(127\.0\.0\.1|localhost):\d+(?=/({SECTIONS})/)'.encode()
)


@dataclass(frozen=True, kw_only=True)
class View:
    """A page, or with POST the effect of a form, whose fields are in the query of the call.

    `content` returns what the template shows, or a file, or the address to go to. A form leads
    to `then`, by default the page of its resource.
    """

    pattern: str
    content: Callable[[Service, Call], Json | Message | str]
    template: str = ""
    method: str = "GET"
    then: str = ""

    @property
    def route(self) -> RawRoute:
        """The route of the view."""
        return RawRoute(self.method, self.pattern, self._respond)

    def _respond(self, service: Service, call: Call) -> Message:
        if self.method == "POST":
            path = re.sub("<([a-z]+)>", lambda match: call.args[match[1]], self.pattern)
            then = self.then or path.rpartition(":")[0]
            try:
                call = Call(call.args, _checked_form(path, call.message))
                content = self.content(service, call) or then
            except ApiError as problem:  # perhaps of a page that no longer shows what is
                return error_page(service, problem, {}, then)
        else:
            content = self.content(service, call)
        if isinstance(content, str):
            return Message(b"", {"Location": content}, status=303)
        return content if isinstance(content, Message) else _render(service, self.template, content)


def file_message(path: Path, *, is_page: bool) -> Message:
    """Return a file that a run wrote: a page without rights, a text, or a download if binary.

    Raises:
        ApiError: NOT_FOUND.
    """
    if not path.is_file():
        raise ApiError("NOT_FOUND", f"{path} is not a file, or has been deleted.")
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES)
    kind = "text/plain"
    if is_page:
        kind, data = "text/html", OWN_ADDRESS.sub(b"", data)
    if b"\0" in data:
        kind = "application/octet-stream"
    fields = {"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": FOREIGN_SECURITY}
    return Message(data, fields)


def error_page(
    service: Service, problem: ApiError, query: Mapping[str, str], then: str = ""
) -> Message:
    """Return the page of an error, for any request of a browser.

    `query` is of its address; `then` is the page that shows what a refused form is about.
    """
    content = {"problem": problem, "query": query, "then": then}
    return _render(service, "error.html", content, status=problem.code)


def token_of(path: str) -> str:
    """Return the token of the forms that are sent to a path of this process."""
    return hmac.new(SECRET, path.encode(), hashlib.sha256).hexdigest()


def _checked_form(path: str, message: Message) -> dict[str, str]:
    """Return the fields of a form; ApiError if it is not from a page of this process."""
    form = dict(parse_qsl(message.data.decode(errors="replace"), keep_blank_values=True))
    if not hmac.compare_digest(form.pop("token", "").encode(), token_of(path).encode()):
        raise ApiError(
            "FAILED_PRECONDITION",
            "The form is not from a page of this service, or the service was restarted: go back, "
            "reload the page and try again.",
            code=403,
        )
    return form


def _render(service: Service, template: str, content: Json, *, status: int = 200) -> Message:
    """Return a page; it loads nothing from other hosts and runs only its own script."""
    nonce = secrets.token_urlsafe(16)
    html = _environment().get_template(template).render(service=service, nonce=nonce, **content)
    fields = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": SECURITY.format(nonce=nonce),
        "Cache-Control": "no-store",
    }
    return Message(html.encode(), fields, status)


@cache
def _environment() -> Any:
    from jinja2 import ChainableUndefined, Environment, FileSystemLoader  # 0.05 s, for pages only

    environment = Environment(
        autoescape=True,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=ChainableUndefined,  # many fields of resources are optional
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
    )
    environment.filters.update(words.FILTERS, facts=run_facts)
    environment.globals.update(token_of=token_of, unfinished=UNFINISHED)
    return environment
