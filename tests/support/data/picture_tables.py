"""Tiny pictures in a flat folder, and a table of their labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

from tests.support.data.csv_tables import write_table

SIZE = (8, 6)
KINDS = {"cat": 40, "dog": 120, "emu": 200}
Rows = list[dict[str, Any]]


def write_pictures(folder: Path, count: int, *, suffix: str = ".png") -> Rows:
    """Write pictures whose brightness tells their kind; return a row for each."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        kind = [*KINDS][number % len(KINDS)]
        pixels = np.full((*SIZE, 3), KINDS[kind], np.uint8)
        pixels[0, 0] = number % 256
        name = f"p{number:03d}"
        Image.fromarray(pixels).save(folder / f"{name}{suffix}", suffix.lstrip(".").upper())
        weight = round(KINDS[kind] / 4 + number % 3, 1)
        rows.append({"file": name, "weight": weight, "place": "ab"[number % 2], "kind": kind})
    return rows


def write_rows(path: Path, rows: Rows) -> Path:
    """Write rows as the kind of file that the suffix names; `.json` with one object per file."""
    if path.suffix == ".csv":
        write_table(path, rows)
    elif path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))
    return path
