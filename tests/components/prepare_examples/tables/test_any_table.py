"""Tables that a user declares: any names, kinds of features and kinds of labels."""

import datetime
import io
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
import tensorflow as tf
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import notes, prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.reading.csv_files import BLOCK_BYTES, record_blocks
from tests.support.data.csv_tables import write_table
from trainer import Json

NUM_ROWS = 120
WORDS = ("good", "bad", "Fine,", "GOOD!")
FEATURES = """
    Number("Monthly Charge", low=0, high=500, unit="€"),
    Number("vector", length=3),
    Category("plan"),
    Category("tags", separator="|"),
    Category("floor", low=-2, high=40),
    Text("review", max_tokens=3),
    Timestamp("signed_up", format="%d.%m.%Y", is_required=True),
    TimePart("signed_up_day", of="signed_up", part="day", low=1, high=31, is_required=True),
"""
KEY = 'key="customer"'
BINARY = 'Binary("churned", positive="yes")'


def declare(folder: Path, *, label: str = BINARY, features: str = FEATURES, more: str = "") -> str:
    """Write a workload file; return its reference."""
    folder.mkdir(exist_ok=True)
    (folder / "workload.py").write_text(
        "from trainer.workloads import (Binary, Category, Classes, Multilabel, Number, Regression,"
        " Table, Text, TimePart, Timestamp)\n"
        f"workload = Table([{features}], label={label}, {more})\n"
    )
    return str(folder)


def make_rows(count: int = NUM_ROWS) -> list[dict[str, str]]:
    chance = random.Random(0)
    return [
        {
            "customer": f"c{number}",
            "Monthly Charge": f"{chance.uniform(5, 100):.2f}",
            "vector": f"[{number}, 0.5, -1e-3]",
            "plan": chance.choice(["basic", "größer", ""]),
            "tags": chance.choice(["a|b", "b", "", "c |a"]),
            "floor": str(chance.randrange(-2, 40)),
            "review": f"{chance.choice(WORDS)} {chance.choice(WORDS)}",
            "signed_up": f"{1 + number % 28:02d}.02.{1960 + number}",
            "churned": chance.choice(["yes", "no"]),
        }
        for number in range(count)
    ]


@pytest.fixture
def run(tmp_path):
    """Prepare rows; return the manifest."""

    def do(rows, reference, **options) -> Json:
        file = rows if isinstance(rows, str) else write_table(tmp_path / "rows.csv", rows)
        chosen = PrepareOptions(**{"files": (file,), "num_shards": {"train": 1}, **options})
        return prepare(reference, output_dir=tmp_path / "out", data_dir=tmp_path, options=chosen)

    return do


@pytest.fixture
def churn(tmp_path) -> str:
    return declare(tmp_path / "churn", more='key="customer"')


def examples_of(folder: Path) -> list[dict[str, list]]:
    """Return each example as the lists of its features."""
    found = []
    for path in sorted(folder.glob("*.tfrecord.gz")):
        for record in tf.data.TFRecordDataset([str(path)], "GZIP").as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.append(
                {name: list(getattr(f, f.WhichOneof("kind")).value) for name, f in features.items()}
            )
    return found


def statistics_of(folder: Path, split: str = "train") -> Json:
    return json.loads((folder / "statistics.json").read_text())["splits"][split]["features"]


def quarantined(folder: Path) -> list[Json]:
    files = sorted(folder.glob("quarantine-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_column_without_a_name_is_no_key(tmp_path, run):
    # Spreadsheets write a separator after the last column.
    rows = [{**row, "": ""} for row in make_rows()]
    run(rows, declare(tmp_path / "churn", more='ignored=["customer", ""]'))
    assert len(examples_of(tmp_path / "out")) == NUM_ROWS


def test_each_kind_of_feature_is_stored_as_declared(tmp_path, run, churn):
    rows = make_rows()
    manifest = run(rows, churn)
    assert manifest["workload"] == "churn"
    assert manifest["split_rule"].startswith("by a hash of customer:")
    assert manifest["label"] == "churned: 1 if it is 'yes', else 0"
    found = {example["vector"][0]: example for example in examples_of(tmp_path / "out")}
    assert len(found) == NUM_ROWS
    for number, row in enumerate(rows):
        example = found[number]
        assert example["Monthly Charge"] == [pytest.approx(float(row["Monthly Charge"]))]
        assert example["vector"] == [number, 0.5, pytest.approx(-1e-3)]
        assert example.get("plan", [b""])[0].decode() == row["plan"]
        tags = [tag.strip().encode() for tag in row["tags"].split("|") if tag]
        assert example.get("tags", []) == tags
        assert example["floor"] == [int(row["floor"])]
        assert example["review"] == [row["review"].encode()]
        day, month, year = map(int, row["signed_up"].split("."))
        days = datetime.date(year, month, day) - datetime.date(1970, 1, 1)
        assert example["signed_up"] == [days.total_seconds()]
        assert example["signed_up_day"] == [day]
        assert example["churned"] == [int(row["churned"] == "yes")]
        assert "customer" not in example


def test_statistics_count_tokens_and_the_values_of_lists(tmp_path, run, churn):
    run(make_rows(), churn)
    found = statistics_of(tmp_path / "out")
    review = found["review"]
    assert {token for token, _ in review["tokens"]} == {"good", "bad", "fine"}
    assert sum(count for _, count in review["tokens"]) == 2 * review["num_present"]
    counts = [count for _, count in review["tokens"]]
    assert counts == sorted(counts, reverse=True)
    tags = found["tags"]
    assert tags["is_list"]
    assert {tag for tag, _ in tags["top_values"]} == {"a", "b", "c"}
    assert (tags["min_length"], tags["max_length"]) == (1, 2)
    assert tags["num_values"] == sum(count for _, count in tags["top_values"])
    assert tags["num_missing"] > 0
    vector = found["vector"]
    assert (vector["min_length"], vector["max_length"]) == (3, 3)
    assert vector["min"] == pytest.approx(-1e-3)
    report = (tmp_path / "out" / "report.html").read_text()
    assert "tokens<td>3" in report
    assert "lists of texts" in report


def test_a_later_run_measures_drift_of_tokens_and_lists(tmp_path, run, churn):
    run(make_rows(), churn)
    (tmp_path / "out").rename(tmp_path / "before")
    rows = [{**row, "review": "awful", "tags": "z"} for row in make_rows()]
    manifest = run(rows, churn, baseline=str(tmp_path / "before"), block_on="none")
    words = " ".join(manifest["drift"])
    assert "review: awful: 0 → 100 %" in words
    assert "tags: z: 0 → 100 %" in words


def test_the_examples_fit_their_own_schema(tmp_path, run, churn):
    run(make_rows(), churn)
    (tmp_path / "out").rename(tmp_path / "before")
    schema = str(tmp_path / "before" / "schema.pbtxt")
    assert run(make_rows(), churn, schema=schema)["num_errors"] == 0


BAD_VALUES = [
    ("signed_up", "2020-01-31", "'2020-01-31' does not match the format '%d.%m.%Y'"),
    ("signed_up", "30.02.2020", "'30.02.2020' does not match the format"),
    ("signed_up", "", "is missing"),
    ("Monthly Charge", "501", "501 is impossible; allowed: 0 to 500 €"),
    ("Monthly Charge", "free", "'free' is not a number"),
    ("vector", "[1, 2]", "2 numbers instead of 3"),
    ("vector", "[1, x, 2]", "'x' is not a number"),
    ("vector", "[1, 1e39, 2]", "1e+39 is impossible"),
    ("vector", "[1, -1e400, 2]", "-inf is impossible; allowed: numbers of float32"),
    ("Monthly Charge", "1e400", "inf is impossible; allowed: numbers of float32"),
    ("Monthly Charge", "5E213", "5e+213 is impossible; allowed: numbers of float32"),
    ("floor", "1e400", "inf is"),
    ("floor", "1.5", "1.5 is not a whole number"),
    ("floor", "41", "41 is impossible; allowed: -2 to 40"),
]


def test_bad_values_are_quarantined_with_their_reasons(tmp_path, run, churn):
    rows = make_rows()
    for number, (column, value, _) in enumerate(BAD_VALUES):
        rows[7 + 2 * number][column] = value
    manifest = run(rows, churn, max_quarantine=0.5)
    entries = sorted(quarantined(tmp_path / "out"), key=lambda entry: entry["row"])
    assert [(entry["row"], entry["column"]) for entry in entries] == [
        (8 + 2 * number, column) for number, (column, _, _) in enumerate(BAD_VALUES)
    ]
    for entry, (_, _, reason) in zip(entries, BAD_VALUES, strict=True):
        assert reason in entry["reason"]
    assert manifest["rows"]["written"] == NUM_ROWS - len(BAD_VALUES)


@pytest.mark.parametrize(
    ("label", "values"),
    [
        (BINARY, ["yes", "no"]),
        ('Classes("churned")', ["oak", "elm"]),
        ('Classes("churned")', ["7", "3"]),
        ('Regression("churned", low=0)', ["1.5", "2"]),
    ],
    ids=["binary", "texts", "whole", "regression"],
)
def test_rows_without_a_label_are_left_out_and_counted(tmp_path, run, label, values):
    rows = make_rows()
    for number, row in enumerate(rows):
        row["churned"] = "" if number % 5 == 0 else values[number % 2]
    manifest = run(rows, declare(tmp_path / "w", label=label, more=KEY), max_quarantine=0.0)
    assert manifest["rows"] == {
        **{"read": 120, "written": 96, "quarantined": 0, "filtered": 0, "unlabelled": 24}
    }
    assert all(example["churned"] for example in examples_of(tmp_path / "out"))
    assert "24 without a label" in notes(manifest)[0]


def test_a_table_without_any_label_is_refused(run, churn):
    with pytest.raises(DataError, match="no row is left of 120: 120 have no churned"):
        run([{**row, "churned": ""} for row in make_rows()], churn)


def test_declared_texts_are_missing_values(tmp_path, run):
    reference = declare(tmp_path / "churn", more='key="customer", missing=("NA", "?")')
    rows = make_rows()
    rows[0] |= {"Monthly Charge": "NA", "plan": "?", "floor": "NA"}
    run(rows, reference)
    (example,) = [e for e in examples_of(tmp_path / "out") if e["vector"][0] == 0]
    assert not {"Monthly Charge", "plan", "floor"} & set(example)


@pytest.mark.parametrize(
    ("rename", "problem"),
    [
        ({"plan": "plans"}, r"'plan' is missing.*did you mean 'plans'\? the file has .*plans"),
        ({"customer": "id"}, r"'customer' is missing"),
        ({"churned": "left"}, r"'churned' is missing"),
    ],
    ids=["feature", "key", "label"],
)
def test_a_missing_column_is_named_with_the_columns_of_the_file(run, churn, rename, problem):
    rows = [{rename.get(name, name): value for name, value in row.items()} for row in make_rows()]
    with pytest.raises(DataError, match=problem):
        run(rows, churn)


@pytest.mark.parametrize("name", ["customer", "Kunde/Nr"])
def test_the_split_key_may_have_the_name_of_the_files(tmp_path, run, name):
    rows = [{"Kunde/Nr": row.pop("customer"), **row} for row in make_rows()]
    reference = declare(
        tmp_path / "churn", more=f'group_by=["{name}"], aliases={{"Kunde/Nr": "customer"}}'
    )
    rule = run(rows, reference, split_key=("Kunde/Nr", "plan"))["split_rule"]
    assert rule.startswith("by a hash of customer and plan")


def test_an_undeclared_column_must_be_declared_or_ignored(tmp_path, run, churn):
    rows = [{**row, "Comment 1": "x", "Comment 2": "y"} for row in make_rows()]
    with pytest.raises(DataError, match=r"'Comment 1' .*declare it as a feature.*ignore_columns"):
        run(rows, churn)
    assert run(rows, churn, ignore_columns=("Comment*",))["rows"]["written"] == NUM_ROWS
    ignoring = declare(tmp_path / "ignoring", more='key="customer", ignored=["comment_?"]')
    assert run(rows, ignoring)["rows"]["written"] == NUM_ROWS


def test_names_match_by_alias_and_in_normal_form(tmp_path, run):
    reference = declare(
        tmp_path / "churn", more='key="customer", aliases={"Kundennummer": "customer"}'
    )
    names = {"customer": "Kundennummer", "Monthly Charge": "monthly_charge", "plan": " Plan"}
    rows = [{names.get(name, name): value for name, value in row.items()} for row in make_rows()]
    run(rows, reference)
    assert "Monthly Charge" in examples_of(tmp_path / "out")[0]


def test_rows_without_a_key_are_split_by_all_their_values(tmp_path, run):
    reference = declare(tmp_path / "churn", more='ignored=["customer"]')
    rows = make_rows()
    manifest = run(rows + rows[:60], reference)
    assert manifest["split_rule"].startswith("by a hash of all values of a row:")
    sizes = {s: f["num_examples"] for s, f in manifest["splits"].items()}
    again = run(list(reversed(rows)), reference)
    train = {e["vector"][0] for e in examples_of(tmp_path / "out")}
    assert len(train) == NUM_ROWS
    assert sum(sizes.values()) == NUM_ROWS + 60
    assert all(sizes[split] >= again["splits"][split]["num_examples"] for split in sizes)


def labelled(values: list[str]) -> list[dict[str, str]]:
    rows = make_rows()
    return [{**row, "churned": values[n % len(values)]} for n, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("label", "values", "stored"),
    [
        ('Binary("churned")', ["1", "0"], {1, 0}),
        ('Binary("churned")', ["1.0", "0.0"], {1, 0}),
        ('Binary("churned", positive=True)', ["True", "FALSE"], {1, 0}),
        ('Classes("churned")', ["7", "3", "5"], {3, 5, 7}),
        ('Classes("churned")', ["oak", "1", "elm"], {b"oak", b"1", b"elm"}),
        ('Classes("churned", values=("oak", "elm"))', ["oak", "elm"], {b"oak", b"elm"}),
        ('Regression("churned", low=0)', ["1.5", "2", "4e1"], {1.5, 2.0, 40.0}),
    ],
)
def test_each_kind_of_label_is_stored_as_declared(tmp_path, run, label, values, stored):
    run(labelled(values), declare(tmp_path / "w", label=label, more='key="customer"'))
    assert {e["churned"][0] for e in examples_of(tmp_path / "out")} == stored
    found = statistics_of(tmp_path / "out")["churned"]
    plain = {value.decode() if isinstance(value, bytes) else value for value in stored}
    assert {value for value, _ in found["top_values"]} == plain


def test_classes_in_order_are_texts_whatever_the_number_of_files(tmp_path, run):
    rows = sorted(labelled(["1", "2", "oak"]), key=lambda row: row["churned"])
    reference = declare(tmp_path / "w", label='Classes("churned")', more='key="customer"')
    run(rows, reference, num_shards={"train": 4})  # the first of which has no other text
    found = statistics_of(tmp_path / "out")["churned"]
    assert {value for value, _ in found["top_values"]} == {"1", "2", "oak"}


def test_several_labels_are_a_list_that_may_be_empty(tmp_path, run):
    label = 'Multilabel("churned", separator=";")'
    reference = declare(tmp_path / "w", label=label, more='key="customer"')
    manifest = run(labelled(["a;b", "", "b"]), reference)
    assert manifest["rows"]["quarantined"] == 0
    found = {tuple(e["churned"]) for e in examples_of(tmp_path / "out")}
    assert found == {(b"a", b"b"), (), (b"b",)}
    counted = statistics_of(tmp_path / "out")["churned"]
    assert {value for value, _ in counted["top_values"]} == {"a", "b"}
    assert counted["num_missing"] == 0


@pytest.mark.parametrize(
    ("label", "values", "problem"),
    [
        (BINARY, ["Y", "N"], r"churned is 0 in all.*positive='yes'.*'N' \(60 rows\), 'Y' \(60"),
        (BINARY, ["yes"], r"churned is 1 in all"),
        ('Classes("churned")', ["oak"], r"churned is oak in all"),
        ('Regression("churned")', ["3"], r"churned is 3\.0 in all"),
        ('Multilabel("churned")', [""], r"no row of the train split has a label in churned"),
        ('Classes("churned", values=("oak", "elm"))', ["oak", "ash"], r"'ash' is not a class"),
        ('Multilabel("churned", values=("a",))', ["a", "a|z"], r"'z' is not a label; allowed: a"),
        ('Regression("churned", low=0, unit="€")', ["1", "-2"], r"-2 is impossible.*at least 0 €"),
    ],
)
def test_a_label_that_cannot_be_learnt_is_an_error(tmp_path, run, label, values, problem):
    reference = declare(tmp_path / "w", label=label, more='key="customer"')
    with pytest.raises(DataError, match=problem):
        run(labelled(values), reference)
    assert not (tmp_path / "out").exists()


def test_a_label_of_a_single_value_names_the_quarantine(tmp_path, run):
    rows = labelled(["yes", *["no"] * 19])
    for row in rows:
        row["plan"] = "größer" if row["churned"] == "yes" else "basic"
        row["review"] = "good"
    path = Path(write_table(tmp_path / "latin.csv", rows))
    path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))
    reference = declare(tmp_path / "w", more='key="customer"')

    with pytest.raises(
        DataError, match=r"churned is 0 in all.* 6 that were quarantined \(plan 6\)"
    ):
        run(str(path), reference, max_quarantine=0.2)


def test_a_positive_value_that_only_other_splits_have_is_named(tmp_path, run):
    rows = labelled(["yes", "no"])
    reference = declare(tmp_path / "w", more='key="customer"')
    run(rows, reference)
    (tmp_path / "out" / "train-00000-of-00001.tfrecord.gz").unlink()
    number = int(examples_of(tmp_path / "out")[0]["vector"][0])
    rows = [{**row, "churned": "yes" if at == number else "no"} for at, row in enumerate(rows)]
    with pytest.raises(
        DataError, match=r"is 0 in all .*'yes' \(1 rows\); use more rows of the rarer"
    ):
        run(rows, reference)


def test_a_class_that_the_train_split_lacks_is_named(tmp_path, run):
    rows = labelled(["oak", "elm"])
    reference = declare(tmp_path / "w", label='Classes("churned")', more='key="customer"')
    run(rows, reference)
    (tmp_path / "out" / "train-00000-of-00001.tfrecord.gz").unlink()
    number = int(examples_of(tmp_path / "out")[0]["vector"][0])
    rows[number]["churned"] = "yew"
    with pytest.raises(DataError, match=r"'yew' in 1 rows of the (eval|test) split.*values="):
        run(rows, reference)


def test_parquet_gives_the_examples_of_the_same_csv(tmp_path, run, churn):
    rows = make_rows()
    run(rows, churn)
    plain = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.tfrecord.gz")}
    tags = [[t.strip() for t in row["tags"].split("|")] if row["tags"] else None for row in rows]
    vectors = [[float(v) for v in row["vector"].strip("[]").split(",")] for row in rows]
    table = pa.table(
        {
            **{name: [row[name] or None for row in rows] for name in rows[0]},
            "Monthly Charge": [float(row["Monthly Charge"]) for row in rows],
            "floor": pa.array([int(row["floor"]) for row in rows], pa.int8()),
            "tags": pa.array(tags, pa.large_list(pa.string())),
            "vector": pa.array(vectors, pa.list_(pa.float32(), 3)),
            "churned": [row["churned"] == "yes" for row in rows],
        }
    )
    parquet.write_table(table, tmp_path / "rows.parquet")
    label = 'Binary("churned", positive=True)'
    reference = declare(tmp_path / "b", label=label, more='key="customer"')
    run(str(tmp_path / "rows.parquet"), reference)
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.tfrecord.gz")}
    assert found == plain


def test_weights_are_stored_and_must_not_be_negative(tmp_path, run):
    reference = declare(tmp_path / "w", more='key="customer", weight="w"')
    rows = [{**row, "w": "2.5"} for row in make_rows()]
    rows[3]["w"] = "-1"
    run(rows, reference)
    assert {e["w"][0] for e in examples_of(tmp_path / "out")} == {2.5}
    assert [entry["column"] for entry in quarantined(tmp_path / "out")] == ["w"]


def test_a_rule_of_the_users_file_computes_the_label_on_two_workers(tmp_path, run):
    folder = tmp_path / "tips"
    folder.mkdir()
    (folder / "rules.py").write_text("def is_big(columns):\n    return columns['tip'] > 5\n")
    (folder / "workload.py").write_text(
        "from trainer.workloads import Binary, Number, Table\nfrom .rules import is_big\n"
        "workload = Table([Number('fare')], key='id', only_read=[Number('tip', low=0)],\n"
        "    label=Binary('big', rule=is_big, rule_columns=('tip',), rule_text='tip > 5'))\n"
    )
    rows = [{"id": str(n), "fare": str(n), "tip": str(n % 10)} for n in range(200)]
    threads = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
    manifest = run(rows, str(folder), beam_options=threads, num_shards={"train": 2})
    assert manifest["label"] == "big: tip > 5"
    for example in examples_of(tmp_path / "out"):
        assert example["big"] == [int(example["fare"][0] % 10 > 5)]
        assert "tip" not in example


def test_each_time_is_converted_to_its_own_zone(tmp_path, run):
    features = """
        Number("n"),
        Timestamp("sent", format="%Y-%m-%dT%H:%M:%S%z", time_zone="Asia/Kolkata"),
        Timestamp("seen", time_zone="America/New_York"),
    """
    reference = declare(tmp_path / "w", features=features, label='Binary("y")')
    rows = [
        {
            "n": str(number),
            "sent": "2024-03-01T10:00:00+0200",
            "seen": ("2024-03-01T08:00:00Z", "1709280000")[number % 2],
            "y": str(number % 2),
        }
        for number in range(80)
    ]
    manifest = run(rows, reference)
    assert manifest["times"] == {
        "column": "sent, seen",
        "wall_time_of": "Asia/Kolkata, America/New_York",
        "rows_converted_from": {"seen Z": 40},
    }
    midnight = 1_709_251_200  # 1 March 2024
    for example in examples_of(tmp_path / "out"):
        assert example["sent"] == [midnight + 13 * 3600 + 1800]
        assert example["seen"] == [midnight + (3 if example["n"][0] % 2 == 0 else 8) * 3600]


def test_the_command_takes_the_path_of_a_workload_file(tmp_path, churn, capsys):
    from components.prepare_examples.cli import main

    file = write_table(tmp_path / "rows.csv", make_rows())
    flags = ["--workload", f"{churn}/workload.py", "--output-dir", str(tmp_path / "out")]
    assert main([*flags, "--files", file, "--train-shards", "1"]) == 0
    assert (tmp_path / "out" / "manifest.json").exists()
    assert main([*flags]) == 2
    assert "declares no source" in capsys.readouterr().err


def test_blocks_of_many_columns_are_larger():
    line = b"1,2\n"
    content = line * (3 * BLOCK_BYTES // len(line))
    for num_columns, num_blocks in ((2, 3), (1024, 2)):
        options = {"name": "table.csv", "num_columns": num_columns}
        blocks = list(record_blocks(io.BytesIO(content), None, **options))
        assert (len(blocks), b"".join(blocks) == content) == (num_blocks, True)
