"""Tables as people have them: kinds of columns, what is wrong with some cells, kinds of files."""

import datetime
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.support.data import csv_tables

NUM_ROWS = 90
AMOUNT, LABEL = "amount", "outcome"
WORDS = ["oak", "elm", "fir, red", 'said "no"', "two\nlines", "größer"]
MARKERS = ["", "NA", "?", "none"]
NAMES = ["plain", "class", "from", "self", "key", "dense", "Age", "age", "x/y", "x.y", "%"]
NAMES += ["Größe", "цена", "价格", " padded ", "a,b"]
MESSES = ["clean", "missing", "blanks", "one typo", "constant", "all different", "new values"]
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}
FILES = [*SEPARATORS, "gzip", "parquet", "json lines", "typed parquet", "typed json lines"]

Make = Callable[[random.Random], str]
Table = dict[str, list[Any]]


def decimal_comma(value: float) -> str:
    """Return a number as Germans write it."""
    return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


def day(chance: random.Random) -> datetime.date:
    """Return a day of two years."""
    return datetime.date(2024, 1, 1) + datetime.timedelta(days=chance.randrange(600))


KINDS: dict[str, Make] = {
    "number": lambda chance: f"{chance.uniform(0, 90):.3g}",
    "whole": lambda chance: str(chance.randrange(40)),
    "decimal comma": lambda chance: decimal_comma(chance.uniform(0, 5000)),
    "currency": lambda chance: f"${chance.uniform(0, 5000):,.2f}",
    "percent": lambda chance: f"{chance.randrange(101)}%",
    "code": lambda chance: f"{chance.randrange(20):04d}",
    "category": lambda chance: chance.choice(["basic", "gold", "größer"]),
    "ISO date": lambda chance: day(chance).isoformat(),
    "German date": lambda chance: f"{day(chance):%d.%m.%Y}",
    "American date": lambda chance: f"{day(chance):%m/%d/%Y}",
    "yes or no": lambda chance: chance.choice(["yes", "no"]),
    "boolean": lambda chance: chance.choice(["true", "false"]),
    "Python's boolean": lambda chance: chance.choice(["True", "False"]),
    "Excel's boolean": lambda chance: chance.choice(["TRUE", "FALSE"]),
    "boolean as a number": lambda chance: chance.choice("01"),
    "text": lambda chance: " ".join(chance.choices(WORDS, k=6)),
    "list": lambda chance: "|".join(chance.sample(["a", "b", "c"], k=chance.randrange(1, 4))),
}
LABELS: dict[str, Make] = {
    "binary": lambda chance: chance.choice(["yes", "no"]),
    "classes": lambda chance: chance.choice(["cat", "dog", "cow"]),
    "regression": lambda chance: f"{chance.gauss(0, 9):.4f}",
}
# The value of a clean cell in a file that has types.
TYPED: dict[str, Callable[[str], Any]] = {
    "number": float,
    "whole": lambda text: {str(int(text)): int(text)}[text],  # not of 07
    "ISO date": datetime.date.fromisoformat,
    "boolean": lambda text: {"true": True, "false": False}[text],
    "list": lambda text: text.split("|"),
}
# The values of texts, read in another way than the program does.
NUMBERS: dict[str, Callable[[str], float]] = {
    "decimal comma": lambda text: float(text.replace(".", "").replace(",", ".")),
    "currency": lambda text: float(text.strip("$").replace(",", "")),
    "percent": lambda text: float(text.strip("%")),
}
DATES = {"ISO date": "%Y-%m-%d", "German date": "%d.%m.%Y", "American date": "%m/%d/%Y"}


@dataclass(frozen=True)
class Column:
    """A column of a table: a kind of values, what is wrong with some, and a name."""

    kind: str
    mess: str
    name: str

    def cells(self, chance: random.Random) -> list[str]:
        """Return the text of each row."""
        make = KINDS[self.kind]
        if self.mess == "constant":
            return [make(chance)] * NUM_ROWS
        cells = [make(chance) for _ in range(NUM_ROWS)]
        rows = chance.sample(range(NUM_ROWS), k=8)
        if self.mess == "missing":
            marker = chance.choice(MARKERS)
            cells = [marker if row in rows else cell for row, cell in enumerate(cells)]
        elif self.mess == "blanks":
            cells = [f" {cell} " if row in rows else cell for row, cell in enumerate(cells)]
        elif self.mess == "one typo":
            cells[rows[0]] = "4O"
        elif self.mess == "all different":
            cells = [f"{cell}{row}" for row, cell in enumerate(cells)]
        elif self.mess == "new values":
            last = NUM_ROWS // 10
            cells[-last:] = [f"{cell}x" for cell in cells[-last:]]
        return cells

    def typed(self, cells: list[str]) -> list[Any]:
        """Return the cells as a file with types has them; as texts if one has no such value."""
        try:
            return [TYPED[self.kind](cell) if cell else None for cell in cells]
        except (KeyError, ValueError):
            return cells


def write_table(path: Path, kind: str, table: Table, columns: list[Column]) -> str:
    """Write a table as a kind of file; return its path."""
    if kind.startswith("typed "):
        table = table | {column.name: column.typed(table[column.name]) for column in columns}
        kind = kind.removeprefix("typed ")
    if kind == "parquet":
        parquet.write_table(pa.table(table), path.with_suffix(".parquet"))
        return str(path.with_suffix(".parquet"))
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    if kind == "json lines":
        target = path.with_suffix(".jsonl")
        lines = (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
        target.write_text("".join(lines))
        return str(target)
    target = path.with_suffix(".csv.gz" if kind == "gzip" else ".csv")
    return csv_tables.write_table(target, rows, delimiter=SEPARATORS.get(kind, ","))
