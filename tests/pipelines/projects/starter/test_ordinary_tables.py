"""Tables as people have them: what `new` writes is read alike from files of any kind and requests.

Two hundred tables, always the same; with TABLES=5000 in the environment many, and other ones.
"""

import base64
import contextlib
import csv
import dataclasses
import datetime
import gzip
import json
import os
import random
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.options import PrepareOptions
from pipelines.projects.runs import find_run
from pipelines.projects.starter.folder import Start, write_folder
from pipelines.projects.starter.tables import start_table
from pipelines.projects.trial.places import Places
from pipelines.projects.trial.tables import sample_table
from trainer.workloads import Number, load_workload

NUM_TABLES = int(os.environ.get("TABLES", "0"))
NUM_ROWS = 90
AMOUNT, LABEL = "amount", "outcome"
WORDS = ["oak", "elm", "fir, red", 'said "no"', "two\nlines", "größer"]
MARKERS = ["", "NA", "?", "none"]
NAMES = ["plain", "class", "from", "self", "key", "dense", "Age", "age", "x/y", "x.y", "%"]
NAMES += ["Größe", "цена", "价格", " padded ", "a,b"]
MESSES = ["clean", "missing", "blanks", "one typo", "constant", "all different", "new values"]
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}
FILES = [*SEPARATORS, "gzip", "parquet", "json lines"]


def decimal_comma(value: float) -> str:
    return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


def day(chance: random.Random) -> datetime.date:
    return datetime.date(2024, 1, 1) + datetime.timedelta(days=chance.randrange(600))


KINDS = {
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
    "boolean": lambda chance: chance.choice(["true", "false"]),
    "Python's boolean": lambda chance: chance.choice(["True", "False"]),
    "text": lambda chance: " ".join(chance.choices(WORDS, k=6)),
    "list": lambda chance: "|".join(chance.sample(["a", "b", "c"], k=chance.randrange(1, 4))),
}
LABELS = {
    "binary": lambda chance: chance.choice(["yes", "no"]),
    "classes": lambda chance: chance.choice(["cat", "dog", "cow"]),
    "regression": lambda chance: f"{chance.gauss(0, 9):.4f}",
}


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


columns = st.lists(
    st.builds(
        Column, st.sampled_from(list(KINDS)), st.sampled_from(MESSES), st.sampled_from(NAMES)
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column.name,
)


def write_table(path: Path, kind: str, table: dict[str, list[str]]) -> str:
    """Write a table as a kind of file; return its path."""
    if kind == "parquet":
        parquet.write_table(pa.table(table), path.with_suffix(".parquet"))
        return str(path.with_suffix(".parquet"))
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    if kind == "json lines":
        target = path.with_suffix(".jsonl")
        target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return str(target)
    target = path.with_suffix(".csv.gz" if kind == "gzip" else ".csv")
    with (gzip.open if kind == "gzip" else open)(target, "wt", newline="") as file:
        writer = csv.DictWriter(file, list(table), delimiter=SEPARATORS.get(kind, ","))
        writer.writeheader()
        writer.writerows(rows)
    return str(target)


def read(workload, paths: list[str], folder: Path, options: PrepareOptions):
    """Return the sample of a table, and the bytes of its examples."""
    folder.mkdir()
    sample = sample_table(
        workload, folder, dataclasses.replace(options, files=tuple(paths)), folder, Places(None)
    )
    examples = b"".join(path.read_bytes() for path in sorted(folder.glob("*.tfrecord*")))
    return sample, examples


@pytest.mark.timeout(3600 if NUM_TABLES else 240)
@settings(
    max_examples=NUM_TABLES or 200,
    deadline=None,
    phases=(Phase.generate,),  # the tables are small, and each takes a while
    derandomize=not NUM_TABLES,
    suppress_health_check=list(HealthCheck),
)
@given(
    columns=columns,
    label=st.sampled_from(list(LABELS)),
    files=st.lists(st.sampled_from(FILES), min_size=2, max_size=2, unique=True),
    seed=st.integers(0, 10**6),
)
def test_what_new_writes_is_read_alike_from_every_kind_of_file_and_request(
    columns, label, files, seed
):
    chance = random.Random(seed)
    table = {column.name: column.cells(chance) for column in columns}
    table[AMOUNT] = [f"{row + chance.random():.4f}" for row in range(NUM_ROWS)]
    table[LABEL] = [LABELS[label](chance) for _ in range(NUM_ROWS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = (write_table(folder / "table", kind, table) for kind in files)
        start = started(first, table)
        if start is None:
            return
        write_folder(folder / "own", start)
        workload = load_workload(str(folder / "own"))
        options = find_run(str(folder / "own")).prepare_options()
        sample, examples = read(workload, [first], folder / "first", options)
        check_sample(sample, columns)
        _, others = read(workload, [second], folder / "second", options)
        assert examples == others, "another kind of file gives other bytes"
        check_requests(workload, folder / "first", table)


def started(path: str, table: dict[str, list[str]]) -> Start | None:
    """Return the content of a folder for a table; None if it is refused by a column's name."""
    try:
        return start_table([path], LABEL)
    except DataError as error:
        if any(repr(name) in str(error) for name in table):
            return None
        raise


def value_of(feature, text: str) -> float | str | None:
    """Return a value as a request has it: numbers as numbers, nothing as null."""
    if isinstance(feature, Number):
        with contextlib.suppress(ValueError):
            return float(text)
    return text or None


def check_requests(workload, folder: Path, table: dict[str, list[str]]) -> None:
    """Check that a row that is sent has the features of the row's example."""
    records = [
        record
        for path in sorted(folder.glob("*.tfrecord*"))
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    trained = workload.parse_examples([{"b64": base64.b64encode(one).decode()} for one in records])
    features = {feature.name: feature for feature in workload.used}
    by_field = {field: features.get(name) for field, name in workload.aliases.items()} | features
    used = {name: feature for name in table if (feature := by_field.get(name.strip()))}
    rows = [
        {
            name: value_of(feature, text)
            for (name, feature), text in zip(used.items(), row, strict=True)
        }
        for row in zip(*(table[name] for name in used), strict=True)
    ]
    by_amount = {np.float32(row[AMOUNT]): row for row in rows}
    served = workload.parse_instances([by_amount[amount] for amount in trained[AMOUNT]])
    for name, values in trained.items():
        np.testing.assert_array_equal(values, served[name], err_msg=name)


def check_sample(sample, columns: list[Column]) -> None:
    """Check that every row is accounted for, and that only typos are bad."""
    counts = re.match(r"(?:all )?(\d+) rows of .*? read, (\d+) bad", sample.detail)
    assert counts, (sample.detail, sample.problems)
    num_read, num_bad = map(int, counts.groups())
    assert num_read == NUM_ROWS
    assert num_bad <= sum(column.mess == "one typo" for column in columns)
    assert not sample.problems or num_bad, sample.problems
