"""A page: one file that needs no network and runs no script."""

from html import escape
from pathlib import Path
from string import Template

TEMPLATE = Path(__file__).with_name("page.html")
CHARTS = Path(__file__).with_name("charts") / "charts.css"


def fill(title: str, body: str, *, about: str = "") -> str:
    """Return a page with a title and a body in HTML."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        about=escape(about),
        charts=CHARTS.read_text(encoding="utf-8"),
        body=body,
    )


def write_page(page: str, path: Path) -> None:
    """Write a page, and its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
