"""Pages from templates: each is one file that needs no network, and no script to be read."""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from markupsafe import Markup

from components.shared.pages import formats

COMPONENTS = Path(__file__).parents[2]
CHARTS = Path(__file__).with_name("charts") / "charts.css"
SECTION = re.compile(r'<section id="([^"]*)"><h2>(.*?)</h2>')
MIN_SECTIONS = 3  # fewer need no list of contents

TEMPLATES = Environment(
    autoescape=True,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=ChainableUndefined,  # a run that ended early lacks many facts
    loader=FileSystemLoader(COMPONENTS),
)
TEMPLATES.filters.update(
    anchor=lambda title: "".join(c if c.isalnum() else "-" for c in title.lower()),
    measured=formats.measured,
    number=formats.number,
    percent=formats.percent,
    signed=formats.signed,
)


def render(template: str, **values: Any) -> Markup:
    """Return the HTML of a template, which is named by its path below `components`."""
    return Markup(TEMPLATES.get_template(template).render(values))


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
    sections = [(Markup(name), f"#{anchor}") for anchor, name in SECTION.findall(body)]
    return render(
        "shared/pages/page.html",
        title=title,
        about=about,
        links=list(links),
        contents=sections if len(sections) >= MIN_SECTIONS else [],
        style=Markup(CHARTS.read_text(encoding="utf-8") + style),
        body=Markup(body),
        script=Markup(script),
        digest=b64encode(sha256(script.encode()).digest()).decode(),
    )


def write_page(page: str, path: Path) -> None:
    """Write a page, and its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
