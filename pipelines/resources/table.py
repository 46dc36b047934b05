"""Table of resources, to be printed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows and their headings."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
