"""CSV files of rows."""

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_table(
    path: Path, rows: Sequence[Mapping[str, Any]], *, encoding: str = "utf-8", **style: Any
) -> str:
    """Write rows with the columns of the first, and return the path as text."""
    path.parent.mkdir(exist_ok=True, parents=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, rows[0].keys(), **style)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)
