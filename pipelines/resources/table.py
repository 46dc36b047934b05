"""Table of resources, to be printed."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

NOTE_INDENT = "    "


@dataclass(frozen=True)
class TextTable:
    """Rows and their headings."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


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
