"""The text of a cell of the training file means the same in every kind of request."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pipelines.predictions.inputs.lines import read_lines
from pipelines.predictions.inputs.plan import LINES, plan_parts
from pipelines.predictions.inputs.tables import read_table
from pipelines.predictions.options import PredictOptions
from trainer.workloads import Binary, Category, Number, Table, Text, TimePart, Timestamp

CELLS = {
    "number": (Number("x", missing=("NA", "-999")), ["1.5", " 2 ", "1e3", "", "NA", "-999.0"]),
    "decimal comma": (Number("x", written="1.234,5"), ["1.234,56", "12,5", "7", " "]),
    "currency": (Number("x", written="1,234.5", signs=("$", "()")), ["$12,345", "($2.5)", "3", ""]),
    "percent": (Number("x", signs=("%",), missing=("n/a",)), ["61%", "7 %", "0.5", "n/a"]),
    "list of numbers": (Number("x", length=2), ["[1, 2.5]", "3,4", "(5,6)", ""]),
    "category": (Category("x", missing=("?",)), ["basic", " basic ", "?", "", "5"]),
    "code": (Category("x", hashed=100), ["007", "010", ""]),
    "truth": (Category("x"), ["True", "true", "FALSE", " false", "1", ""]),
    "whole": (Category("x", low=-2, high=9, missing=("-",)), ["-2", "9", " 3 ", "4.0", "-", ""]),
    "list": (Category("x", separator=","), ["red, big", "red", "red,,blue ", "", ", "]),
    "whole list": (Category("x", separator="|", low=0, high=9), ["1|2", "3", ""]),
    "text": (Text("x", missing=("-",)), ["two words", " two words", "-", "", "True"]),
    "time": (Timestamp("x"), ["2024-01-31 10:30:59", "2024-01-31", "1706659200", ""]),
    "zone": (Timestamp("x", time_zone="Asia/Tokyo"), ["2024-01-31T10:30:00Z", ""]),
    "date": (Timestamp("x", format="%d.%m.%Y", missing=("never",)), ["31.01.2024", "never", ""]),
    "digits": (Timestamp("x", format="%Y%m%d"), ["20240131", "19991231", ""]),
    "milliseconds": (Timestamp("x", format="milliseconds"), ["1760000000000", "", "0"]),
}  # fmt: skip


def write(path: Path, cells: list) -> str:
    """Write the column x of a file, with a column that is not read, because a line may be empty."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["x", "row"], *zip(cells, range(len(cells)), strict=True)])
    elif path.suffix == ".parquet":
        parquet.write_table(pa.table({"x": cells}), path)
    else:
        path.write_text("".join(json.dumps({"x": cell}) + "\n" for cell in cells))
    return str(path)


def read(path: str, table: Table) -> np.ndarray:
    """Return the feature x of all rows of a file for predictions."""
    predictor = SimpleNamespace(workload=table)
    parts, _ = plan_parts([path], predictor, PredictOptions())
    batches = [
        batch
        for part in parts
        for batch in (
            read_lines(part, predictor)
            if part["kind"] == LINES
            else read_table(part, predictor, time_zone="")
        )
    ]
    assert not [batch.errors for batch in batches if batch.errors]
    return np.concatenate([batch.features["x"] for batch in batches])


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_of_the_training_file_is_read_alike_in_every_request(tmp_path, kind):
    feature, cells = CELLS[kind]
    table = Table([feature], label=Binary("y"), name="t")
    expected = read(write(tmp_path / "rows.csv", cells), table)
    instances = [{"x": cell} for cell in cells]
    found = {
        "Parquet": read(write(tmp_path / "rows.parquet", cells), table),
        "JSON lines": read(write(tmp_path / "rows.jsonl", cells), table),
        "online": table.parse_instances(instances)["x"],
        "each online": np.stack([table.parse_instance(one)["x"] for one in instances]),
    }
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected, err_msg=name)


@pytest.mark.parametrize(
    ("feature", "values"),
    [
        (Category("x"), [5, 7, None]),
        (Category("x"), [True, False, None]),
        (Timestamp("x", format="%Y%m%d"), [20240131, 19991231, None]),
        (Timestamp("x", format="milliseconds"), [1760000000000, 0, None]),
        (Number("x", length=2), [[1.0, 2.5], [], None]),
        (Category("x", separator=","), [["red", " big"], ["", "red"], None]),
    ],
    ids=["whole codes", "truth", "digits", "milliseconds", "numbers", "texts"],
)
def test_typed_values_are_read_alike_too(tmp_path, feature, values):
    table = Table([feature], label=Binary("y"), name="t")
    expected = read(write(tmp_path / "rows.parquet", values), table)
    lines = read(write(tmp_path / "rows.jsonl", values), table)
    online = table.parse_instances([{"x": value} for value in values])["x"]
    np.testing.assert_array_equal(lines, expected)
    np.testing.assert_array_equal(online, expected)


@pytest.mark.parametrize("line", ["2,3.5,yes\n", "2,3.5\n"], ids=["with", "without the label"])
def test_a_file_without_a_header_may_lack_the_label(tmp_path, line):
    (tmp_path / "rows.csv").write_text(line * 3)
    header = ("row", "Total (x)", "Y?")
    table = Table(
        [Number("x")],
        label=Binary("y"),
        name="t",
        header=header,
        aliases={"Total (x)": "x", "Y?": "y"},
        ignored=["row"],
    )
    assert read(str(tmp_path / "rows.csv"), table).tolist() == [3.5] * 3


def test_a_part_of_a_time_is_a_whole_number_in_every_request():
    features = [Timestamp("at", is_used=False), TimePart("x", of="at", part="day", low=1, high=31)]
    table = Table(features, label=Binary("y"), name="t")
    assert table.parse_instance({"x": " 7"})["x"] == table.parse_instance({"x": 7})["x"] == 7
