"""The console: a web page with the resources of the service."""

import secrets
from pathlib import Path
from string import Template

from werkzeug.wrappers import Response

from vertex_local.api.service import Service
from vertex_local.console.markup import text
from vertex_local.console.sections import all_sections

TEMPLATE = Path(__file__).with_name("page.html")


def page(service: Service) -> Response:
    """Return the page; it loads nothing from other hosts and runs only its own script."""
    nonce = secrets.token_urlsafe(16)
    html = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        nonce=nonce,
        url=text(service.url),
        root=text(service.root),
        content=all_sections(service),
    )
    response = Response(html, mimetype="text/html")
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    return response
