"""Parts of a page: sections, tables, tiles and numbers as text."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from components.shared.text.value_text import PERCENT, number_text, percent_text

_TINY, NUM_DIGITS = 1e-3, 4


def section(title: str, *parts: str, note: str = "") -> str:
    """Return a section of the page; "" if all its parts are empty. Parts are HTML, not text.

    The list of contents of the page has its title.
    """
    body = "".join(parts)
    if not body:
        return ""
    about = f'<p class="note">{escape(note)}</p>' if note else ""
    name = "".join(c if c.isalnum() else "-" for c in title.lower())
    return f'<section id="{name}"><h2>{escape(title)}</h2>{about}{body}</section>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, css: str = "") -> str:
    """Return a table of cells in HTML, with the first cell of each row as its heading."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="wide"><table class="{css}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def navigation(name: str, links: Iterable[tuple[str, str]]) -> str:
    """Return a list of links, each a text and its address; "" without any."""
    items = "".join(f'<li><a href="{escape(to)}">{escape(text)}</a></li>' for text, to in links)
    return f'<nav aria-label="{escape(name)}"><ul>{items}</ul></nav>' if items else ""


def details(title: str, body: str) -> str:
    """Return a part of the page that is collapsed until a click."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def listed(items: Iterable[str]) -> str:
    """Return texts as a list, "" for none."""
    rows = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{rows}</ul>" if rows else ""


def charts(*figures: str) -> str:
    """Return figures side by side, "" for none."""
    return f'<div class="charts">{"".join(figures)}</div>' if any(figures) else ""


def verdict(words: str, *, is_good: bool) -> str:
    """Return the result of a page in words."""
    return f'<p class="verdict {"good" if is_good else "bad"}">{escape(words)}</p>'


def tiles(values: Iterable[tuple[str, str, str]]) -> str:
    """Return tiles; each has a value, its name and a note."""
    boxes = "".join(
        f'<div class="tile"><b>{escape(value)}</b>{escape(name)}<small>{escape(note)}</small></div>'
        for value, name, note in values
    )
    return f'<div class="tiles">{boxes}</div>'


def percent(share: Any) -> str:
    """Return a share in percent; `n/a` for null.

    A zero at the end is kept, so shares of one column can be compared.
    """
    if not isinstance(share, int | float) or not math.isfinite(share):
        return "n/a"
    text = percent_text(share)
    return f"{100 * share:.1f} %" if PERCENT <= share <= 1 and text[0] != ">" else text


def number(value: Any) -> str:
    """Return a measured number with four digits that matter, `n/a` for null, other values as text.

    Zeros at the end are kept, so numbers of one column can be compared.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escape(str(value))
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0 and abs(value) < _TINY:
        return number_text(value, digits=2)
    num_whole = sum(abs(value) >= power for power in (1, 10, 100, 1000))
    return f"{value:,.{NUM_DIGITS - num_whole}f}"


def measured(value: Any) -> str:
    """Return a metric, `not defined` for null."""
    return "not defined" if value is None else number(value)


def signed(value: Any) -> str:
    """Return a difference with its sign."""
    return f"+{number(value)}" if isinstance(value, int | float) and value > 0 else number(value)
