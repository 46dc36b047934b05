"""Hashes of whole rows: each column counts, however it is declared and whatever file holds it."""

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from components.prepare_examples.tables.columns import hashed_names
from components.prepare_examples.tables.row_hash import hash_raw_rows

NOON = datetime.datetime(2024, 1, 31, 12)
BERLIN = datetime.timezone(datetime.timedelta(hours=2))


def hashes(values: list, kind: pa.DataType | None = None, *, name: str = "a") -> list[int]:
    return hash_rows({name: pa.array(values, kind)})


def hash_rows(columns: dict[str, pa.Array]) -> list[int]:
    return hash_raw_rows(columns, hashed_names(columns)).to_pylist()


@pytest.mark.parametrize(
    ("texts", "values", "kind"),
    [
        (["7.85", "-0.0", "+1e3"], [7.85, 0.0, 1000.0], pa.float32()),
        (["1.50", "2"], [Decimal("1.50"), Decimal("2.00")], None),
        (["007", ""], [7, None], pa.uint8()),
        (["nan", "NA"], [float("nan"), None], pa.float64()),
        (["True", "false "], [True, False], None),
        (["A b", "größer"], ["A b", "größer"], pa.dictionary(pa.int8(), pa.string())),
        (["a|b", "c"], [["a", "b"], ["c"]], None),
        (["a;b", ""], [["a", "b"], None], pa.list_(pa.string())),
        (["[1, 0.5, -1e-3]", "(2 3 4)"], [[1, 0.5, -0.001], [2, 3, 4]], pa.list_(pa.float32(), 3)),
        (["2024-01-31T12:00:00", "2024-02-01"], [NOON, NOON.replace(month=2, day=1, hour=0)], None),
        (["2024-01-31", ""], [NOON.date(), None], None),
        (
            ["2024-01-31 12:00:00+02:00", "2024-01-31 10:00:00Z"],
            [NOON.replace(tzinfo=BERLIN)] * 2,
            None,
        ),
        (["", "null"], [None, None], pa.null()),
        (["1.234,50", "12,5", "0,05", "-7"], [1234.5, 12.5, 0.05, -7], None),
        (["0,1234567890123", "1.234.567.890.123"], [0.1234567890123, 1234567890123.0], None),
        (["$12,345", "(12.50)", "61 %", "1 234,5 €"], [12345, -12.5, 61, 1234.5], None),
        (["31.01.2024 12:00", "01/31/24 12:00 PM", "31-Jan-2024 12:00:00.5"], [NOON] * 3, None),
        (["31.01.2024", "Jan 31, 2024", "2024/1/31"], [NOON.date()] * 3, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_value_of_a_csv_file_has_the_hash_of_the_typed_value(texts, values, kind):
    assert hashes([text.encode() for text in texts]) == hashes(values, kind)


def test_each_column_and_each_place_counts():
    pairs = [(a, b) for a in "01" for b in "01"]
    columns = {name: pa.array([pair[at] for pair in pairs]) for at, name in enumerate("ab")}
    rows = hash_rows(columns)
    assert len(set(rows)) == 4
    reordered = {" B": columns["b"], "A": columns["a"], "Unnamed: 0": pa.array(range(4))}
    assert hash_rows(reordered) == rows
    assert hash_rows({**columns, "c": pa.nulls(4)}) == rows


def test_columns_whose_names_differ_by_case_only_count_both():
    rows = [{"Age": age, "age": other} for age in (1, 2) for other in (3, 4)]
    columns = {name: pa.array([row[name] for row in rows]) for name in ("Age", "age")}
    assert len(set(hash_rows(columns))) == 4
    assert hash_rows({"AGE": columns["age"]}) == hash_rows({"age": columns["age"]})


def test_texts_that_are_no_numbers_or_times_differ():
    texts = ["a1", "b1", "town 17", "city 17", "123-45-6789", "123-46-5789", "12 May", "1,2;3"]
    assert len(set(hashes(texts))) == len(texts)


@pytest.mark.parametrize("value", [b"2024-02-31", b"\xff", b"+", b"[", b"[1, x]", b"1,,2", b"()"])
def test_no_value_breaks_the_hash(value):
    [number] = hashes([value])
    assert isinstance(number, int)


def test_values_of_other_types_count_too():
    kind = pa.struct([("a", pa.int8())])
    assert len(set(hashes([{"a": 1}, {"a": 2}, None], kind))) == 3
    assert len(set(hashes([[[1]], [[2]]], pa.list_(pa.list_(pa.int8()))))) == 2


DECLARED = 'Table([Number("n"), {}], label=Binary("y", positive="up"), ignored=["*"], name="w")'
FEATURES = ['Category("tags", separator="|")', 'Category("town")', 'Number("x")']


@pytest.fixture
def rows() -> list[dict]:
    chance = random.Random(3)
    return [
        {
            "tags": "|".join(chance.sample(["red", "blue", "green"], 2)),
            "town": chance.choice(["Ulm", "Bonn"]),
            "x": round(chance.random(), 3),
            "y": chance.choice(["up", "down"]),
            "n": number,
        }
        for number in range(200)
    ]


def test_a_row_stays_in_its_split_whatever_is_declared_and_in_each_kind_of_file(
    tmp_path, rows, run
):
    def splits(file, *features, **options) -> list[list[float]]:
        found = run(DECLARED.format(", ".join(features)), file, **options)
        assert found.manifest["split_rule"].startswith("by a hash of all values of a row:")
        return found.splits("n")

    lists = [{**row, "tags": row["tags"].split("|")} for row in rows]
    parquet.write_table(pa.Table.from_pylist(lists), tmp_path / "rows.parquet")
    first = splits(rows, FEATURES[0])
    assert sum(map(len, first)) == 200
    assert min(map(len, first)) > 8
    assert splits(rows[::-1], *FEATURES) == first
    assert splits(tmp_path / "rows.parquet", *FEATURES[:2]) == first
    assert splits(tmp_path / "rows.parquet", FEATURES[2], ignore_columns=("town",)) == first
