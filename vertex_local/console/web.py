"""Views as routes of the service: templates, security headers, and forms with their tokens."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from vertex_local import Json
from vertex_local.api.routes import Call, Message, RawRoute
from vertex_local.api.service import Service
from vertex_local.console import words
from vertex_local.errors import ApiError, of_exception

RESOURCE = "<project>/<location>/<id>"
TEMPLATES = Path(__file__).with_name("templates")
SECRET = secrets.token_bytes(32)  # of this process: forms of an earlier service are refused
SECURITY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# Other people's page: no script, and an origin of its own, whose requests the service refuses.
FOREIGN_SECURITY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Content = Callable[[Service, Call], Json]


@dataclass(frozen=True, kw_only=True)
class View:
    """A page, or with POST the effect of a form.

    `content` returns what the template shows; of a form without a template it returns the
    `location` to go to. The fields of a form are in the query of its call.
    """

    pattern: str
    content: Content
    template: str = ""
    method: str = "GET"


def route_of(view: View) -> RawRoute:
    """Return the route of a view."""

    def handle(service: Service, call: Call) -> Message:
        try:
            if view.method == "POST":
                call = Call(call.args, _checked_form(_path(view.pattern, call), call.message))
            content = view.content(service, call)
            if isinstance(file := content.get("file"), Message):
                return file
            if not view.template:
                return Message(b"", {"Location": content["location"]}, status=303)
            return render(service, view.template, content)
        except Exception as error:
            problem = of_exception(error)
            content = {"title": problem.status, "message": problem.message}
            return render(service, "error.html", content, status=problem.code)

    return RawRoute(view.method, view.pattern, handle)


def render(service: Service, template: str, content: Json, *, status: int = 200) -> Message:
    """Return a page; it loads nothing from other hosts and runs only its own script."""
    nonce = secrets.token_urlsafe(16)
    html = _environment().get_template(template).render(service=service, nonce=nonce, **content)
    fields = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": SECURITY.format(nonce=nonce),
        "Cache-Control": "no-store",
        "Referrer-Policy": "same-origin",
    }
    return Message(html.encode(), fields, status)


def file_message(path: Path, *, is_page: bool, max_bytes: int = 50_000_000) -> Message:
    """Return a file that a run wrote: a page without rights, or a text.

    Raises:
        ApiError: NOT_FOUND.
    """
    if not path.is_file():
        raise ApiError("NOT_FOUND", f"{path} is not a file, or has been deleted.")
    with path.open("rb") as file:
        data = file.read(max_bytes)
    kind = "text/html" if is_page else "text/plain"
    fields = {"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": FOREIGN_SECURITY}
    return Message(data, fields)


def token_of(path: str) -> str:
    """Return the token of the forms that are sent to a path of this process."""
    return hmac.new(SECRET, path.encode(), hashlib.sha256).hexdigest()


def _path(pattern: str, call: Call) -> str:
    return re.sub("<([a-z]+)>", lambda match: call.args[match[1]], pattern)


def _checked_form(path: str, message: Message) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        ApiError: PERMISSION_DENIED, if it is not from a page of this process.
    """
    form = dict(parse_qsl(message.data.decode(errors="replace"), keep_blank_values=True))
    token = form.pop("token", "")
    if not hmac.compare_digest(token.encode(), token_of(path).encode()):
        raise ApiError(
            "PERMISSION_DENIED",
            "The form is not from a page of this service, or the service was restarted: go back, "
            "reload the page and try again.",
        )
    return form


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # 0.05 s, for pages only

    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        loader=FileSystemLoader(TEMPLATES),
    )
    environment.filters.update(
        ago=words.ago,
        elapsed=words.elapsed,
        span=words.span,
        number=words.number,
        href=words.href,
        tone=words.tone,
        word=words.word,
        id=words.id_of,
        memory=words.memory,
    )
    environment.globals.update(token_of=token_of)
    return environment
