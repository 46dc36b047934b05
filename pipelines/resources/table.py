"""Table of resources, to be printed."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOTE_INDENT = "    "
WIDTH, INDENT = 80, 18  # of facts and their values


@dataclass(frozen=True)
class TextTable:
    """Rows and their headings."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def fact_lines(facts: Mapping[str, Any]) -> list[str]:
    """Return a line for each fact that is not empty, wrapped where it is long."""
    wrapper = textwrap.TextWrapper(WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    return [
        f"{'' if number else name:<{INDENT - 1}} {line}"
        for name, fact in facts.items()
        for number, line in enumerate(
            line for paragraph in str(fact or "").splitlines() for line in wrapper.wrap(paragraph)
        )
    ]


def table_lines(table: TextTable, *, width: int = 0) -> list[str]:
    """Return the headings and rows as lines of aligned columns.

    If they are wider than `width`, the last column stands below each row; 0 is for any width.
    """
    from rich.cells import cell_len  # 0.03 s, which commands without a table save

    def aligned(rows: list[tuple[str, ...]]) -> list[str]:
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        ]

    rows = [table.headings, *table.rows]
    lines = aligned(rows)
    if not width or max(map(cell_len, lines)) <= width:
        return lines
    heading, *lines = aligned([row[:-1] for row in rows])
    shown = [heading]
    for line, row in zip(lines, table.rows, strict=True):
        note = textwrap.wrap(
            row[-1],
            width,
            initial_indent=NOTE_INDENT,
            subsequent_indent=NOTE_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        shown += [line, *note]
    return shown
