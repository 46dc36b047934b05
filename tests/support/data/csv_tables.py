"""CSV files of rows."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows with the columns of the first, and return the path as text."""
    path.parent.mkdir(exist_ok=True, parents=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return str(path)
