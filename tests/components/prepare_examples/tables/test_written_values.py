"""Values as people write them: markers, blanks, truth values, codes and repeated headers."""

import itertools
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from tests.support.data.csv_tables import write_table

Columns = dict[str, list]


@pytest.fixture
def read(tmp_path, run):
    """Prepare columns of texts as CSV, or of any values as Parquet; an id is added."""

    def do(columns: Columns, declaration: str, *, kind: str = "csv"):
        count = max(map(len, columns.values()))
        table = {"id": list(range(count)), **columns}
        file: list[dict] | Path = tmp_path / "rows"
        if kind == "csv":
            file = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        else:
            parquet.write_table(pa.table(table), file)
        return run(f"Table({declaration}, key='id')", file, max_quarantine=0.1)

    return do


def columns_of(count: int = 300, **columns) -> Columns:
    """Return columns with the given values in turn."""
    return {
        name: [*itertools.islice(itertools.cycle(values), count)]
        for name, values in columns.items()
    }


def test_a_marker_belongs_to_its_column(read):
    columns = columns_of(country=["NA", "ZA"], income=["NA", "-999", "5", " 7 "], left="ynnyn")
    declaration = (
        "[Category('country', min_count=1), Number('income', missing=('NA', '-999'))],"
        " label=Binary('left', positive='y')"
    )
    found = read(columns, declaration)
    assert {*found.values("country")} == {b"NA", b"ZA"}
    assert {*found.values("income")} == {None, 5.0, 7.0}


def test_a_marker_is_no_value_of_a_list_in_any_file(read):
    declaration = "[Category('tags', separator='|', missing=('?',))], label=Classes('y')"
    lists = columns_of(tags=[["a", "?"], ["?"], ["b"]], y="mnn")
    typed = read(lists, declaration, kind="parquet")
    texts = read({**lists, "tags": ["|".join(tags) for tags in lists["tags"]]}, declaration)
    assert {*typed.values("tags")} == {*texts.values("tags")} == {b"a", b"b", None}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_markers_hold_for_numbers_and_for_the_whole_table(read, kind):
    columns = columns_of(x=[-999, 1, 2], town=["n/a", "Ulm", "Hof"], y=[0.5, -1.0, 1.5])
    declaration = (
        "[Number('x', missing=('-999',)), Category('town')],"
        " label=Regression('y', missing=('-1',)), missing=('n/a',)"
    )
    found = read(columns, declaration, kind=kind)
    assert {*found.values("x")} == {None, 2.0}
    assert {*found.values("town")} == {None, b"Hof"}
    assert found.rows["unlabelled"] == 100


def test_blanks_and_spellings_of_truth_make_no_other_value(read):
    columns = columns_of(
        **{
            "age": ["18", " 19"],
            " plan": [" basic", "basic ", " ?", " "],
            "  left": [" True", "false "],
        }
    )
    declaration = (
        "[Number('age'), Category('plan', missing=('?',))], label=Binary('left', positive='TRUE')"
    )
    found = read(columns, declaration)
    assert {*found.values("plan")} == {b"basic", None}
    assert {*found.values("left")} == {0, 1}


@pytest.mark.parametrize(
    "label", ["Binary('y', positive='True')", "Classes('y', values=(True, False))", "Classes('y')"]
)
def test_truth_values_have_the_same_bytes_in_every_file(read, label):
    declaration = f"[Category('a')], label={label}"
    columns = columns_of(a=[True, False, False], y=[True, False, False, False])
    spelled = {
        "a": [str(a).upper() for a in columns["a"]],
        "y": [str(y).lower() for y in columns["y"]],
    }
    expected = read(columns, declaration, kind="parquet").shards
    assert read(columns, declaration).shards == expected
    assert read(spelled, declaration).shards == expected


def test_a_repeated_header_is_left_out_and_counted(tmp_path, run):
    ages = map(str, range(18, 80))
    rows = [
        {"age": age, "visits": "123"[at % 3], "left": "yn"[at % 2]} for at, age in enumerate(ages)
    ]
    path = Path(write_table(tmp_path / "joined.csv", rows))
    path.write_text(path.read_text() * 3)
    found = run("Table([Number('age'), Number('visits')], label=Classes('left'))", path)
    assert found.rows == {"read": 188, "written": 186, "repeated_headers": 2}
    assert {*found.values("left")} == {b"y", b"n"}


@pytest.mark.parametrize("values", [("0", "1", "x"), ("no", "yes", "yse")])
def test_a_value_of_a_binary_label_that_occurs_once_is_quarantined_with_its_row(read, values):
    negative, positive, odd = values
    columns = columns_of(age="123456789", left=[negative, positive, positive])
    columns["left"][90] = odd
    literal = positive if positive == "1" else repr(positive)
    found = read(columns, f"[Number('age')], label=Binary('left', positive={literal})")
    assert found.rows == {"read": 300, "written": 299, "quarantined": 1}
    assert found.manifest["quarantine"]["by_column"] == {"left": 1}
    assert len(found.records()) == 299
    [entry] = found.manifest["quarantine"]["files"]
    assert entry["num_rows"] == 1


def test_a_binary_label_with_more_values_is_an_error_that_counts_them(read):
    columns = columns_of(age="123456789", income=[">50K", "<=50K", "<=50K."])
    declaration = "[Number('age')], label=Binary('income', positive='>50K'{})"
    message = r"income has 3 values.*'<=50K' \(100 rows\), '<=50K.' \(100 rows\), '>50K' \(100"
    with pytest.raises(DataError, match=message):
        read(columns, declaration.format(""))
    found = read(columns, declaration.format(", is_one_against_rest=True"))
    assert {*found.values("income")} == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "texts", "expected"),
    [
        (
            "written='1.234,5'",
            ["1.234,5", "12,25", "-3", "1.234"],
            {1234.5, 12.25, -3, 1234},
        ),
        ("written='1,234.5', signs=('$', '()')", ["$12,345", "(12.5)", "-$5"], {12345, -12.5, -5}),
        ("written='1234,5', signs=('-',)", ["12,50-", "-3", "7", "5-"], {-12.5, -3, 7, -5}),
        ("signs=('%',)", ["61%", "7.5 %"], {61, 7.5}),
        ("written='1 234,5', signs=('kg',)", ["1\u202f234,5 kg", "75 kg"], {1234.5, 75}),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_are_read_as_people_write_them(read, arguments, texts, expected, kind):
    columns = columns_of(x=texts, y="abcde")
    columns["x"][0] = "1,2.3"
    found = read(columns, f"[Number('x', {arguments})], label=Classes('y')", kind=kind)
    assert {*found.values("x")} == expected
    assert found.manifest["quarantine"]["by_column"] == {"x": 1}


def test_codes_stay_texts(read):
    columns = columns_of(branch=["007", "7", "08"], code=["01", "02"])
    found = read(columns, "[Category('branch')], label=Classes('code')")
    assert {*found.values("branch")} == {b"007", b"7", b"08"}
    assert {*found.values("code")} == {b"01", b"02"}


@pytest.mark.parametrize("form", ["", "milliseconds"])
@pytest.mark.parametrize("moment", [math.inf, -math.inf, 1e300])
def test_a_time_that_is_too_large_is_a_bad_row_not_1970(read, form, moment):
    columns = columns_of(at=[1.6e9 + number for number in range(300)], left=["yes", "no", "no"])
    columns["at"][7] = moment
    declaration = f"[Timestamp('at', format={form!r})], label=Binary('left', positive='yes')"
    found = read(columns, declaration, kind="parquet")
    assert found.manifest["quarantine"]["by_column"] == {"at": 1}
    assert min(found.values("at")) == (1_600_000 if form else 1_600_000_000)


def test_a_number_that_float32_does_not_hold_is_bad_whatever_the_limits(read):
    columns = columns_of(mass=[*map(str, range(300))], left=["yes", "no", "no"])
    columns["mass"][7:10] = "3.4028235e38", "3.41e38", "-1e299"
    declaration = "[Number('mass', low=-1e300, high=1e300)], label=Binary('left', positive='yes')"
    found = read(columns, declaration)
    assert found.manifest["quarantine"]["by_column"] == {"mass": 2}
    assert max(found.values("mass")) == np.finfo(np.float32).max
