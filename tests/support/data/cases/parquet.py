"""Parquet files that people have: types, months that differ, and folders of Hive."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.support.data.cases.case import Case
from tests.support.data.cases.tables import AGES, NUM_ROWS, Y, columns
from tests.support.data.cases.tables import write as write_csv

START = datetime.datetime(2026, 1, 1)
TIMES = [START + datetime.timedelta(hours=7 * row) for row in range(NUM_ROWS)]
A = "--table a.parquet --label y"


def parquet_of(**more: Any) -> Callable[[Path], None]:
    """Return a function that writes columns with ages and a label to a.parquet."""
    return lambda folder: write(folder / "a.parquet", age=AGES, y=Y, **more)


def write(path: Path, **table: Any) -> None:
    """Write columns as a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(table), path)


def _months(folder: Path) -> None:
    counts = [row % 5 for row in range(NUM_ROWS)]
    nothing: list[Any] = [None] * NUM_ROWS
    days = [time.replace(hour=0) for time in TIMES]
    months = [
        (TIMES, pa.array(TIMES, pa.timestamp("ns")), counts, pa.array(counts, pa.int64())),
        (TIMES, pa.array(TIMES, pa.timestamp("us")), counts, pa.array(counts, pa.float64())),
        (TIMES, pa.array([time.isoformat() for time in TIMES]), nothing, pa.nulls(NUM_ROWS)),
        (
            *(days, pa.array([time.date() for time in TIMES]), counts),
            pa.array(map(Decimal, counts), pa.decimal128(7, 2)),
        ),
    ]
    rows: dict[str, list[Any]] = {"at": [], "passengers": [], "y": []}
    for number, (times, typed_times, texts, passengers) in enumerate(months):
        write(folder / f"months/{number}.parquet", at=typed_times, passengers=passengers, y=Y)
        for name, values in {"at": times, "passengers": texts, "y": Y}.items():
            rows[name] += values
    none = pa.array([], pa.timestamp("ms", "UTC"))
    write(
        folder / "months/9.parquet",
        at=none,
        passengers=pa.array([], pa.int8()),
        y=pa.array([], pa.string()),
    )
    write_csv(folder / "a.csv", rows)


def _hive(folder: Path) -> None:
    fares: list[Any] = []
    months: list[Any] = []
    for month in (11, 12):
        fare = [month * row % 37 / 4 for row in range(NUM_ROWS)]
        write(folder / f"hive/year=2025/month={month}/part-0.parquet", fare=fare, y=Y)
        fares, months = fares + fare, months + [month] * NUM_ROWS
    table = {"fare": fares, "y": Y * 2, "year": [2025] * len(fares), "month": months}
    write_csv(folder / "a.csv", table)


def _booleans(folder: Path) -> None:
    table = columns(a=[True, False, False], x=AGES, y=[True, False, False, False])
    write_csv(folder / "a.csv", table)
    write(folder / "a.parquet", **table)


CASES = {
    "months, as CSV": Case(_months, "--table a.csv --label y"),
    "months": Case(_months, "--table months --label y", same_as="months, as CSV"),
    "hive, as CSV": Case(_hive, "--table a.csv --label y"),
    "hive": Case(_hive, "--table hive --label y", same_as="hive, as CSV", declares=('"month"',)),
    "booleans, as CSV": Case(_booleans, "--table a.csv --label y"),
    "booleans in Parquet": Case(_booleans, A, same_as="booleans, as CSV"),
    "few infinite": Case(
        parquet_of(x=[float("inf") if row == 40 else row / 7 for row in range(NUM_ROWS)]),
        A,
        says=("x: read as",),
        checked="1 quarantined .*row 41: ",
        facts=lambda result: result.rows["quarantined"] == 1,
    ),
}
