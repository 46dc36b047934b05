"""A page: one file that needs no network, and no script to be read."""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape, unescape
from pathlib import Path
from string import Template

from components.shared.pages.html import navigation

TEMPLATE = Path(__file__).with_name("page.html")
CHARTS = Path(__file__).with_name("charts") / "charts.css"
SECTION = re.compile(r'<section id="([^"]*)"><h2>(.*?)</h2>')
MIN_SECTIONS = 3  # fewer need no list of contents


def fill(
    title: str,
    body: str,
    *,
    about: str = "",
    links: Iterable[tuple[str, str]] = (),
    style: str = "",
    script: str = "",
) -> str:
    """Return a page with a title and a body in HTML, and a list of the contents.

    `links` are texts and addresses of other pages, beside the title. Of scripts, the page runs
    `script` alone.
    """
    digest = b64encode(sha256(script.encode()).digest()).decode()
    sections = [(unescape(name), f"#{id_}") for id_, name in SECTION.findall(body)]
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        about=escape(about),
        links=navigation("Other pages", links),
        contents=navigation("Contents", sections if len(sections) >= MIN_SECTIONS else ()),
        style=CHARTS.read_text(encoding="utf-8") + style,
        body=body,
        script=f"<script>{script}</script>" * bool(script),
        allowed=f"; script-src 'sha256-{digest}'" * bool(script),
    )


def write_page(page: str, path: Path) -> None:
    """Write a page, and its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
