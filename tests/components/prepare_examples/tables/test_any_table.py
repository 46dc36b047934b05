"""Tables that a user declares: any names, kinds of features and kinds of labels."""

import datetime
import io
import random
from pathlib import Path

import pytest

from components.prepare_examples.cli import main
from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import notes
from components.prepare_examples.tables.reading.csv_files import BLOCK_BYTES, record_blocks
from components.prepare_examples.tables.reading.files import open_table, scan
from tests.support.data.csv_tables import write_table

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
BINARY = 'Binary("churned", positive="yes")'


def churn(label: str = BINARY, more: str = 'key="customer"') -> str:
    """Return the declaration of the table."""
    return f"Table([{FEATURES}], label={label}, {more})"


def make_rows(*labels: str) -> list[dict[str, str]]:
    """Return rows with the labels in turn, by default of two at random."""
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
            "churned": labels[number % len(labels)] if labels else chance.choice(["yes", "no"]),
        }
        for number in range(NUM_ROWS)
    ]


def renamed(names: dict[str, str]) -> list[dict[str, str]]:
    return [{names.get(name, name): value for name, value in row.items()} for row in make_rows()]


def test_a_column_without_a_name_is_no_key(run):
    # Spreadsheets write a separator after the last column.
    rows = [{**row, "": ""} for row in make_rows()]
    assert run(churn(more='ignored=["customer", ""]'), rows).rows["written"] == NUM_ROWS


def test_each_kind_of_feature_is_stored_as_declared(run):
    rows = make_rows()
    found = run(churn(), rows)
    assert found.manifest["workload"] == "own"
    assert found.manifest["split_rule"].startswith("by a hash of customer:")
    assert found.manifest["label"] == "churned: 1 if it is 'yes', else 0"
    examples = {example["vector"][0]: example for example in found.examples()}
    assert len(examples) == NUM_ROWS
    for number, row in enumerate(rows):
        day, month, year = map(int, row["signed_up"].split("."))
        days = datetime.date(year, month, day) - datetime.date(1970, 1, 1)
        expected = {
            "Monthly Charge": [pytest.approx(float(row["Monthly Charge"]))],
            "vector": [number, 0.5, pytest.approx(-1e-3)],
            "plan": [row["plan"].encode()] if row["plan"] else [],
            "tags": [tag.strip().encode() for tag in row["tags"].split("|") if tag],
            "floor": [int(row["floor"])],
            "review": [row["review"].encode()],
            "signed_up": [days.total_seconds()],
            "signed_up_day": [day],
            "churned": [int(row["churned"] == "yes")],
        }
        assert examples[number] == {name: values for name, values in expected.items() if values}


def test_statistics_count_tokens_and_the_values_of_lists_and_drift_from_them(run):
    before = run(churn(), make_rows())
    found = before.statistics()["features"]
    review, tags, vector = found["review"], found["tags"], found["vector"]
    assert {token for token, _ in review["tokens"]} == {"good", "bad", "fine"}
    counts = [count for _, count in review["tokens"]]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == 2 * review["num_present"]
    assert tags["is_list"]
    assert {tag for tag, _ in tags["top_values"]} == {"a", "b", "c"}
    assert (tags["min_length"], tags["max_length"]) == (1, 2)
    assert tags["num_values"] == sum(count for _, count in tags["top_values"])
    assert tags["num_missing"] > 0
    assert (vector["min_length"], vector["max_length"]) == (3, 3)
    assert vector["min"] == pytest.approx(-1e-3)
    assert "tokens<td>3" in before.report
    assert "lists of texts" in before.report

    same = run(churn(), make_rows(), schema=str(before.folder / "schema.pbtxt"))
    assert same.manifest["num_errors"] == 0
    rows = [{**row, "review": "awful", "tags": "z"} for row in make_rows()]
    drifted = run(churn(), rows, baseline=str(before.folder), block_on="none")
    words = " ".join(drifted.manifest["drift"])
    assert "review: awful: 0 → 100 %" in words
    assert "tags: z: 0 → 100 %" in words


BAD_VALUES = [
    ("signed_up", "2020-01-31", "'2020-01-31' does not match the format '%d.%m.%Y'"),
    ("signed_up", "30.02.2020", "'30.02.2020' does not match the format"),
    ("signed_up", "", "is missing"),
    ("Monthly Charge", "501", "501 is impossible; allowed: 0 to 500 €"),
    ("Monthly Charge", "-3", "-3 is impossible"),
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


def test_bad_values_are_quarantined_with_their_rows_and_reasons(tmp_path, run):
    rows = make_rows()
    for number, (column, value, _) in enumerate(BAD_VALUES):
        rows[7 + 2 * number][column] = value
    found = run(churn(), rows, max_quarantine=0.5)
    for number, (entry, bad) in enumerate(zip(found.quarantine, BAD_VALUES, strict=True)):
        column, value, reason = bad
        assert (entry["row"], entry["column"]) == (8 + 2 * number, column)
        assert entry["file"] == str(tmp_path / "rows.csv")
        assert reason in entry["reason"]
        assert entry["record"][column] == (value or None)
    num_bad = len(BAD_VALUES)
    assert found.rows == {"read": NUM_ROWS, "written": NUM_ROWS - num_bad, "quarantined": num_bad}
    assert len(found.examples()) == NUM_ROWS - num_bad
    by_column = {"Monthly Charge": 5, "floor": 3, "signed_up": 3, "vector": 4}
    assert found.manifest["quarantine"]["by_column"] == by_column


@pytest.mark.parametrize(
    ("label", "values"),
    [
        (BINARY, ["yes", "no"]),
        ('Classes("churned")', ["oak", "elm"]),
        ('Classes("churned")', ["7", "3"]),
        ('Regression("churned", low=0)', ["1.5", "2"]),
    ],
)
def test_rows_without_a_label_are_left_out_and_counted(run, label, values):
    rows = make_rows(*values)
    for row in rows[::5]:
        row["churned"] = ""
    found = run(churn(label), rows, max_quarantine=0.0)
    assert found.rows == {"read": 120, "written": 96, "unlabelled": 24}
    assert None not in found.values("churned")
    assert "24 without a label" in notes(found.manifest)[0]


@pytest.mark.parametrize(
    ("rename", "problem"),
    [
        ({"plan": "plans"}, r"'plan' is not in .*did you mean 'plans'\?"),
        ({"customer": "id"}, r"'customer' is not in .* it has "),
        ({"churned": "left"}, r"'churned' is not in .*; it has "),
    ],
)
def test_a_missing_column_is_named_with_the_columns_of_the_file(run, rename, problem):
    with pytest.raises(DataError, match=problem):
        run(churn(), renamed(rename))


@pytest.mark.parametrize("name", ["customer", "Kunde/Nr"])
def test_the_split_key_may_have_the_name_of_the_files(run, name):
    text = churn(more=f'group_by=["{name}"], aliases={{"Kunde/Nr": "customer"}}')
    found = run(text, renamed({"customer": "Kunde/Nr"}), split_key=("Kunde/Nr", "plan"))
    assert found.manifest["split_rule"].startswith("by a hash of customer and plan")


def test_an_undeclared_column_must_be_declared_or_ignored(run):
    rows = [{**row, "Comment 1": "x", "Comment 2": "y"} for row in make_rows()]
    with pytest.raises(DataError, match=r"not declared: 'Comment 1', .*ignore_columns"):
        run(churn(), rows)
    assert run(churn(), rows, ignore_columns=("Comment*",)).rows["written"] == NUM_ROWS
    ignoring = churn(more='key="customer", ignored=["comment_?"]')
    assert run(ignoring, rows).rows["written"] == NUM_ROWS


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
def test_each_kind_of_label_is_stored_as_declared(run, label, values, stored):
    found = run(churn(label), make_rows(*values))
    assert {*found.values("churned")} == stored
    plain = {value.decode() if isinstance(value, bytes) else value for value in stored}
    top_values = found.statistics()["features"]["churned"]["top_values"]
    assert {value for value, _ in top_values} == plain


def test_classes_in_order_are_texts_whatever_the_number_of_files(run):
    rows = sorted(make_rows("1", "2", "oak"), key=lambda row: row["churned"])
    found = run(churn('Classes("churned")'), rows, num_shards={"train": 4})
    # The first file has no other text.
    assert {*found.values("churned")} == {b"1", b"2", b"oak"}


def test_several_labels_are_a_list_that_may_be_empty(run):
    found = run(churn('Multilabel("churned", separator=";")'), make_rows("a;b", "", "b"))
    assert "quarantined" not in found.rows
    labels = {tuple(example["churned"]) for example in found.examples()}
    assert labels == {(b"a", b"b"), (), (b"b",)}
    counted = found.statistics()["features"]["churned"]
    assert {value for value, _ in counted["top_values"]} == {"a", "b"}
    assert counted["num_missing"] == 0


@pytest.mark.parametrize(
    ("label", "values", "problem"),
    [
        (BINARY, ["Y", "N"], r"churned is 0 in all.*positive='yes'.*'N' \(60 rows\), 'Y' \(60"),
        (BINARY, ["yes"], r"churned is 1 in all"),
        (BINARY, [""], "no row is left of 120: 120 have no churned"),
        ('Classes("churned")', ["oak"], r"churned is oak in all"),
        ('Regression("churned")', ["3"], r"churned is 3\.0 in all"),
        ('Multilabel("churned")', [""], r"no row of the train split has a label in churned"),
        ('Classes("churned", values=("oak", "elm"))', ["oak", "ash"], r"'ash' is not a class"),
        ('Multilabel("churned", values=("a",))', ["a", "a|z"], r"'z' is not a label; allowed: a"),
        ('Regression("churned", low=0, unit="€")', ["1", "-2"], r"-2 is impossible.*at least 0 €"),
    ],
)
def test_a_label_that_cannot_be_learnt_is_an_error(tmp_path, run, label, values, problem):
    with pytest.raises(DataError, match=problem):
        run(churn(label), make_rows(*values))
    assert not list(tmp_path.glob("*out-*"))


def test_a_label_of_a_single_value_names_the_quarantine(tmp_path, run):
    rows = make_rows("yes", *["no"] * 19)
    for row in rows:
        row |= {"plan": "größer" if row["churned"] == "yes" else "basic", "review": "good"}
    path = Path(write_table(tmp_path / "latin.csv", rows))
    path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))
    problem = r"churned is 0 in all.* 6 that were quarantined \(plan 6\)"
    with pytest.raises(DataError, match=problem):
        run(churn(), path, max_quarantine=0.2)


@pytest.mark.parametrize(
    ("label", "odd", "problem"),
    [
        (BINARY, "yes", r"is 0 in all .*'yes' \(1 rows\); use more rows of the rarer"),
        ('Classes("churned")', "yew", r"'yew' in 1 rows of the (eval|test) split.*values="),
    ],
)
def test_a_value_that_the_train_split_lacks_is_named(run, label, odd, problem):
    rows = make_rows("no", "elm" if odd == "yew" else "yes")
    number = int(run(churn(label), rows).values("vector", "test")[0])
    if odd == "yes":
        rows = make_rows("no")
    rows[number]["churned"] = odd
    with pytest.raises(DataError, match=problem):
        run(churn(label), rows)


def test_weights_are_stored_and_must_not_be_negative(run):
    rows = [{**row, "w": "2.5"} for row in make_rows()]
    rows[3]["w"], rows[4]["w"] = "-1", "NaN"
    found = run(churn(more='key="customer", weight="w"'), rows)
    assert {*found.values("w")} == {2.5}
    bad = [(entry["column"], entry["reason"].split(";")[0]) for entry in found.quarantine]
    assert bad == [("w", "-1 is impossible"), ("w", "nan is impossible")]


def test_a_rule_of_the_users_file_computes_the_label_on_two_workers(tmp_path, run):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/rules.py").write_text("def is_big(columns):\n    return columns['tip'] > 5\n")
    text = (
        "Table([Number('fare')], key='id', only_read=[Number('tip', low=0)],\n"
        "    label=Binary('big', rule=is_big, rule_columns=('tip',), rule_text='tip > 5'))\n"
    )
    rows = [{"id": str(n), "fare": str(n), "tip": str(n % 10)} for n in range(200)]
    threads = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
    more = {"beam_options": threads, "num_shards": {"train": 2}}
    found = run(text, rows, imports="from .rules import is_big", **more)
    assert found.manifest["label"] == "big: tip > 5"
    for example in found.examples():
        assert example["big"] == [int(example["fare"][0] % 10 > 5)]
        assert "tip" not in example


def test_each_time_is_converted_to_its_own_zone(run):
    features = """
        Number("n"),
        Timestamp("sent", format="%Y-%m-%dT%H:%M:%S%z", time_zone="Asia/Kolkata"),
        Timestamp("seen", time_zone="America/New_York"),
    """
    seen = ("2024-03-01T08:00:00Z", "1709280000")
    rows = [
        {"n": n, "sent": "2024-03-01T10:00:00+0200", "seen": seen[n % 2], "y": n % 2}
        for n in range(80)
    ]
    found = run(f'Table([{features}], label=Binary("y"))', rows)
    assert found.manifest["times"] == {
        "column": "sent, seen",
        "wall_time_of": "Asia/Kolkata, America/New_York",
        "rows_converted_from": {"seen Z": 40},
    }
    midnight = 1_709_251_200  # 1 March 2024
    for example in found.examples():
        assert example["sent"] == [midnight + 13 * 3600 + 1800]
        assert example["seen"] == [midnight + (3 if example["n"][0] % 2 == 0 else 8) * 3600]


def test_the_command_takes_the_path_of_a_workload_file(tmp_path, run, capsys):
    file = run(churn(), make_rows()).folder.with_name("rows.csv")
    flags = ["--workload", f"{tmp_path}/own/workload.py", "--output-dir", str(tmp_path / "out")]
    assert main([*flags, "--files", str(file), "--num-shards", "train=1"]) == 0
    assert (tmp_path / "out" / "manifest.json").exists()
    assert main([*flags]) == 2
    assert "declares no source" in capsys.readouterr().err


def test_blocks_of_many_columns_are_larger():
    line = b"1,2\n"
    content = line * (3 * BLOCK_BYTES // len(line))
    for num_columns, num_blocks in ((2, 3), (1024, 2)):
        options = {"name": "table.csv", "num_columns": num_columns}
        blocks = [block for block, _ in record_blocks(io.BytesIO(content), None, **options)]
        assert (len(blocks), b"".join(blocks) == content) == (num_blocks, True)


def test_a_cut_at_the_end_of_a_row_is_made_once(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 8)
    cuts = scan(open_table(str(tmp_path / "a.csv")), [10, 14])
    assert [cut.offset for cut in cuts] == [2, 10, 14, 18]
