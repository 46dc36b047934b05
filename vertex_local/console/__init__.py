"""The console: a web page with the resources of the service."""

import secrets
from pathlib import Path
from string import Template

from werkzeug.wrappers import Response

from vertex_local.api.service import Service
from vertex_local.console.markup import text
from vertex_local.console.sections import all_sections
from vertex_local.machine import lost_and_found

MAX_NOTES = 20
TEMPLATE = Path(__file__).with_name("page.html")


def page(service: Service) -> Response:
    """Return the page; it loads nothing from other hosts and runs only its own script."""
    nonce = secrets.token_urlsafe(16)
    html = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        nonce=nonce,
        url=text(service.url),
        root=text(service.root),
        content=_lost_and_found(service) + all_sections(service),
    )
    response = Response(html, mimetype="text/html")
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    return response


def _lost_and_found(service: Service) -> str:
    """Return the newest notes on what the service could not use, until a user removes them."""
    notes = lost_and_found.notes(service.root)[-MAX_NOTES:]
    if not notes:
        return ""
    folder = service.root / lost_and_found.FOLDER
    return (
        f"<section><h2>Lost and found</h2><pre>{text(chr(10).join(notes))}</pre>"
        f'<p class="empty">Remove {text(folder)} once you do not need it.</p></section>'
    )
