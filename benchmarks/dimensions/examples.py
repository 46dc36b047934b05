"""Classes, files, long lists and evaluated rows of a table."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.dimensions.columns import STOP, TRAINYARD
from benchmarks.support.growth import Cost, Dimension, cost_of

NUM_ROWS = 30_000
ROWS_OF_FILE = 20
ROWS_OF_LISTS = 5_000
PREPARE = [sys.executable, "-m", "components.prepare_examples", "--workload", "own"]


def measure_classes(size: int, folder: Path) -> dict[str, Cost]:
    """Return the cost of a run with so many classes."""
    chance = np.random.default_rng(0)
    classes = chance.integers(0, size, NUM_ROWS)
    names = [f"class {number}" for number in range(size)]
    x = classes / size + chance.normal(0, 0.1, NUM_ROWS)
    table = pa.table({"x": x, "label": pa.array(names).take(pa.array(classes))})
    _write_workload(folder, "Number('x')", f"Classes('label', values={names})", [table])
    return {"run": _run(folder, "gate.baseline=none")}


def measure_files(size: int, folder: Path) -> dict[str, Cost]:
    """Return the costs of so many files that are named one by one."""
    tables = [_two_classes(ROWS_OF_FILE, seed) for seed in range(size)]
    _write_workload(folder, "Number('x')", "Binary('label', positive='yes')", tables)
    check = [*TRAINYARD, "check", "own", "--timeout", "3600"]
    return {"check": cost_of(check, folder=folder), "run": _run(folder)}


def measure_lists(size: int, folder: Path) -> dict[str, Cost]:
    """Return the cost of preparing a column of lists of so many numbers."""
    numbers = np.random.default_rng(0).normal(size=ROWS_OF_LISTS * size).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers), size)
    label = np.where(numbers[::size] > 0, "yes", "no")
    table = pa.table({"v": lists.cast(pa.list_(pa.float32())), "label": label})
    feature = f"Number('v', length={size})"
    _write_workload(folder, feature, "Binary('label', positive='yes')", [table])
    prepare = [*PREPARE, "--files", "0.parquet", "--output-dir", "examples"]
    return {"prepare": cost_of(prepare, folder=folder)}


def measure_rows(size: int, folder: Path) -> dict[str, Cost]:
    """Return the cost of a run that evaluates eight tenths of so many rows."""
    table = _two_classes(size, 0)
    _write_workload(folder, "Number('x')", "Binary('label', positive='yes')", [table])
    ratios = {"train": 0.1, "eval": 0.1, "test": 0.8}
    return {"run": _run(folder, f"prepare.ratios={json.dumps(ratios)}")}


def _two_classes(num_rows: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    x = chance.normal(size=num_rows)
    return pa.table({"x": x, "label": np.where(x + chance.normal(size=num_rows) > 0, "yes", "no")})


def _write_workload(folder: Path, feature: str, label: str, tables: Sequence[pa.Table]) -> None:
    """Write a workload `own` of one feature, and its data as a file for each table."""
    (folder / "own").mkdir()
    text = f"from trainyard import Binary, Classes, Number, Table\n\nworkload = Table([{feature}],"
    (folder / "own/workload.py").write_text(f"{text} label={label})\n")
    for at, table in enumerate(tables):
        parquet.write_table(table, folder / f"{at}.parquet")
    files = [f"../{at}.parquet" for at in range(len(tables))]
    (folder / "own/run.yaml").write_text(json.dumps({"prepare": {"files": files}}))


def _run(folder: Path, *settings: str) -> Cost:
    settings = ("train.steps=100", "gate.baseline=constant", *settings)
    flags = [word for setting in settings for word in ("--set", setting)]
    return cost_of([*TRAINYARD, "run", "own", *flags], STOP, folder=folder)


CLASSES = Dimension(
    name="classes", sizes=(100, 1_000), full_sizes=(100, 10_000), measure=measure_classes
)
FILES = Dimension(name="files", sizes=(100, 500), full_sizes=(500, 5_000), measure=measure_files)
LISTS = Dimension(
    name="numbers in a list", sizes=(100, 500), full_sizes=(100, 1_000), measure=measure_lists
)
ROWS = Dimension(
    name="evaluated rows",
    sizes=(50_000, 250_000),
    full_sizes=(500_000, 2_500_000),
    measure=measure_rows,
)
