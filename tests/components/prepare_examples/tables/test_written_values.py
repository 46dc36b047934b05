"""Values as people write them: markers, blanks, truth values, codes and repeated headers."""

import csv
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions

KINDS = "Binary, Category, Classes, Number, Regression, Table, Timestamp"
NAMES = f"from trainer.workloads import {KINDS}\n"


@pytest.fixture
def run(tmp_path):
    """Prepare texts of a CSV file or columns of Parquet, with ids; return manifest, examples."""

    def do(rows, declaration: str):
        folder = tmp_path / "own"
        folder.mkdir(exist_ok=True)
        (folder / "workload.py").write_text(f"{NAMES}workload = Table({declaration}, key='id')\n")
        path = tmp_path / "rows"
        if isinstance(rows, dict):
            num_rows = len(next(iter(rows.values())))
            parquet.write_table(pa.table({**rows, "id": list(range(num_rows))}), path)
        else:
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(
                    [*row, "id" if row == rows[0] else str(number)]
                    for number, row in enumerate(rows, start=-1)
                )
        output = tmp_path / "out" / str(len(list(tmp_path.glob("out/*"))))
        options = PrepareOptions(files=(str(path),), num_shards={"train": 1}, max_quarantine=0.1)
        manifest = prepare(str(folder), output_dir=output, data_dir=tmp_path, options=options)
        records = [
            record
            for file in sorted(output.glob("*.tfrecord.gz"))
            for record in tf.data.TFRecordDataset([str(file)], "GZIP").as_numpy_iterator()
        ]
        return manifest, records

    return do


def values_of(records: list[bytes], name: str) -> set:
    """Return the values of a feature in examples, None for a missing one."""
    features = [tf.train.Example.FromString(record).features.feature for record in records]
    kinds = [one[name] for one in features]
    values = [
        list(getattr(kind, kind.WhichOneof("kind")).value) if kind.WhichOneof("kind") else []
        for kind in kinds
    ]
    return {value[0] if value else None for value in values}


def table(header: str, *columns, count: int = 300) -> list[list[str]]:
    """Return rows with the columns' values in turn, after the header."""
    turns = [itertools.cycle(values) for values in columns]
    return [header.split("|"), *([next(turn) for turn in turns] for _ in range(count))]


def test_a_marker_belongs_to_its_column(run):
    rows = table("country|income|left", ["NA", "ZA"], ["NA", "-999", "5", " 7 "], "ynnyn")
    declaration = (
        "[Category('country', min_count=1), Number('income', missing=('NA', '-999'))],"
        " label=Binary('left', positive='y')"
    )
    _, records = run(rows, declaration)
    assert values_of(records, "country") == {b"NA", b"ZA"}
    assert values_of(records, "income") == {None, 5.0, 7.0}


def test_a_marker_is_no_value_of_a_list_in_any_file(run):
    declaration = "[Category('tags', separator='|', missing=('?',))], label=Classes('y')"
    lists = [["a", "?"], ["?"], ["b"]] * 100
    typed = run({"tags": lists, "y": ["m", "n", "n"] * 100}, declaration)[1]
    texts = run(table("tags|y", ["a|?", "?", "b"], "mnn"), declaration)[1]
    assert values_of(typed, "tags") == values_of(texts, "tags") == {b"a", b"b", None}


def test_markers_hold_for_numbers_of_parquet_and_for_the_whole_table(run):
    columns = {
        "x": [-999, 1, 2] * 100,
        "town": ["n/a", "Ulm", "Hof"] * 100,
        "y": [0.5, -1.0, 1.5] * 100,
    }
    declaration = (
        "[Number('x', missing=('-999',)), Category('town')],"
        " label=Regression('y', missing=('-1',)), missing=('n/a',)"
    )
    manifest, records = run(columns, declaration)
    assert values_of(records, "x") == {None, 2.0}
    assert values_of(records, "town") == {None, b"Hof"}
    assert manifest["rows"]["unlabelled"] == 100


def test_blanks_and_spellings_of_truth_make_no_other_value(run):
    rows = table(
        "age| plan|  left", ["18", " 19"], [" basic", "basic ", " ?", " "], [" True", "false "]
    )
    declaration = (
        "[Number('age'), Category('plan', missing=('?',))], label=Binary('left', positive='TRUE')"
    )
    _, records = run(rows, declaration)
    assert values_of(records, "plan") == {b"basic", None}
    assert values_of(records, "left") == {0, 1}


@pytest.mark.parametrize(
    "label", ["Binary('y', positive='True')", "Classes('y', values=(True, False))", "Classes('y')"]
)
def test_truth_values_have_the_same_bytes_in_every_file(run, label):
    truth = [number % 3 == 0 for number in range(300)]
    other = [number % 4 == 0 for number in range(300)]
    spellings = {
        "parquet": {"a": truth, "y": other},
        "pandas": [["a", "y"], *zip(truth, other, strict=True)],
        "upper": [["a", "y"], *((str(a).upper(), str(y).lower()) for a, y in zip(truth, other))],  # noqa: B905
    }
    found = {
        name: run(rows, f"[Category('a')], label={label}")[1] for name, rows in spellings.items()
    }
    assert found["pandas"] == found["parquet"] == found["upper"]


def test_a_repeated_header_is_left_out_and_counted(run):
    rows = table("age|visits|left", map(str, range(18, 80)), "123", ["yes", "no"], count=99) * 3
    manifest, records = run(rows, "[Number('age'), Number('visits')], label=Classes('left')")
    assert manifest["rows"] == {
        **{"read": 299, "written": 297, "quarantined": 0, "filtered": 0},
        "repeated_headers": 2,
    }
    assert values_of(records, "left") == {b"yes", b"no"}


@pytest.mark.parametrize("values", [("0", "1", "x"), ("no", "yes", "yse")])
def test_a_value_of_a_binary_label_that_occurs_once_is_quarantined_with_its_row(run, values):
    negative, positive, odd = values
    rows = table("age|left", "123456789", [negative, positive, positive])
    rows[91][1] = odd
    literal = positive if positive == "1" else repr(positive)
    manifest, records = run(rows, f"[Number('age')], label=Binary('left', positive={literal})")
    assert manifest["rows"]["quarantined"] == 1
    assert manifest["quarantine"]["by_column"] == {"left": 1}
    assert len(records) == 299
    [entry] = manifest["quarantine"]["files"]
    assert entry["num_rows"] == 1


def test_a_binary_label_with_more_values_is_an_error_that_counts_them(run):
    rows = table("age|income", "123456789", [">50K", "<=50K", "<=50K."])
    declaration = "[Number('age')], label=Binary('income', positive='>50K'{})"
    message = r"income has 3 values.*'<=50K' \(100 rows\), '<=50K.' \(100 rows\), '>50K' \(100"
    with pytest.raises(DataError, match=message):
        run(rows, declaration.format(""))
    _, records = run(rows, declaration.format(", is_one_against_rest=True"))
    assert values_of(records, "income") == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "texts", "expected"),
    [
        (
            "decimal=',', thousands='.'",
            ["1.234,5", "12,25", "-3", "1.234"],
            {1234.5, 12.25, -3, 1234},
        ),
        ("thousands=',', signs=('$', '()')", ["$12,345", "(12.5)", "-$5"], {12345, -12.5, -5}),
        ("decimal=',', signs=('-',)", ["12,50-", "-3", "7", "5-"], {-12.5, -3, 7, -5}),
        ("signs=('%',)", ["61%", "7.5 %"], {61, 7.5}),
        ("decimal=',', thousands=' ', signs=('kg',)", ["1\u202f234,5 kg", "75 kg"], {1234.5, 75}),
    ],
    ids=["german", "dollars", "minus behind", "percent", "kilograms"],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_are_read_as_people_write_them(run, arguments, texts, expected, kind):
    rows = table("x|y", texts, "abcde")
    rows[1][0] = "1,2.3"
    if kind == "parquet":
        rows = {"x": [row[0] for row in rows[1:]], "y": [row[1] for row in rows[1:]]}
    manifest, records = run(rows, f"[Number('x', {arguments})], label=Classes('y')")
    assert values_of(records, "x") == expected
    assert manifest["quarantine"]["by_column"] == {"x": 1}


def test_codes_stay_texts(run):
    rows = table("branch|code", ["007", "7", "08"], ["01", "02"])
    _, records = run(rows, "[Category('branch')], label=Classes('code')")
    assert values_of(records, "branch") == {b"007", b"7", b"08"}
    assert values_of(records, "code") == {b"01", b"02"}


@pytest.mark.parametrize("form", ["", "milliseconds"])
@pytest.mark.parametrize("moment", [math.inf, -math.inf, 1e300])
def test_a_time_that_is_too_large_is_a_bad_row_not_1970(run, form, moment):
    moments = [1.6e9 + number for number in range(300)]
    moments[7] = moment
    columns = {"at": moments, "left": ["yes", "no", "no"] * 100}
    manifest, records = run(
        columns, f"[Timestamp('at', format={form!r})], label=Binary('left', positive='yes')"
    )
    assert manifest["quarantine"]["by_column"] == {"at": 1}
    assert 0 not in values_of(records, "at")


def test_a_number_that_float32_does_not_hold_is_bad_whatever_the_limits(run):
    numbers = [str(number) for number in range(300)]
    numbers[7:10] = "3.4028235e38", "3.41e38", "-1e299"
    rows = [[number, ["no", "yes"][at % 3 == 0]] for at, number in enumerate(numbers)]
    declaration = "[Number('mass', low=-1e300, high=1e300)], label=Binary('left', positive='yes')"
    manifest, records = run([["mass", "left"], *rows], declaration)
    assert manifest["quarantine"]["by_column"] == {"mass": 2}
    assert max(values_of(records, "mass")) == np.finfo(np.float32).max
