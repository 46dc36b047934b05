"""Tables of the report."""

import math
from collections.abc import Iterable, Sequence
from html import escape


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; the first cell of each row is its heading."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def format_share(share: float) -> str:
    """Return a share in percent, `n/a` for nan."""
    return "n/a" if math.isnan(share) else f"{share:.1%}"
