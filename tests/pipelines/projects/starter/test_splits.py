"""`trainyard new --table`: the split that rows ordered by a time, or names of files, suggest."""

import datetime
import random

import pytest
import yaml

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.starter.folder import write_folder
from pipelines.projects.starter.tables import start_table
from tests.support.data.csv_tables import write_table
from trainer.workloads import Regression, load_workload

DICE = random.Random(0)


def sales(count: int = 1000, *, hours: float = 6, **more) -> list[dict]:
    first = datetime.datetime(2025, 1, 1)
    return [
        {
            "sold": f"{first + datetime.timedelta(hours=hours * at):%d.%m.%Y %H:%M}",
            "age": DICE.randint(1, 90),
            "shop": f"shop {DICE.randint(1, 5)}",
            "back": DICE.choice(["yes", "no"]),
            **{name: value(at) for name, value in more.items()},
        }
        for at in range(count)
    ]


def started(tmp_path, *files: str, label: str = "back"):
    """Return the settings of `prepare`, and the notes."""
    start = start_table(files, label)
    folder = tmp_path / "own"
    write_folder(folder, start)
    return yaml.safe_load((folder / "run.yaml").read_text())["prepare"], "\n".join(start.notes)


@pytest.mark.parametrize(
    ("rows", "split"),
    [
        (sales(), {"by": "sold", "eval": "25d", "test": "25d"}),
        (sales()[::-1], {"by": "sold", "eval": "25d", "test": "25d"}),
        (sales(200), {"by": "sold", "eval": "10d", "test": "10d"}),
        (sales(hours=0.05), {"by": "sold", "eval": "5h", "test": "5h"}),
    ],
    ids=["rising", "falling", "few rows", "hours"],
)
def test_rows_in_the_order_of_a_time_are_split_by_it(tmp_path, rows, split):
    prepared, notes = started(tmp_path, write_table(tmp_path / "a.csv", rows))
    assert prepared["split"] == split
    assert "ratios" not in prepared
    assert "rows are ordered by sold, so split: " in notes
    assert "later rows judge the model" in notes
    options = PrepareOptions(files=(str(tmp_path / "a.csv"),), split=prepared["split"])
    out = tmp_path / "out"
    manifest = prepare(str(tmp_path / "own"), output_dir=out, data_dir=out, options=options)
    shares = [split["num_examples"] / len(rows) for split in manifest["splits"].values()]
    rest = 0.2 if len(rows) < 300 else 0.1
    assert shares == pytest.approx([1 - 2 * rest, rest, rest], abs=0.025)


def test_rows_in_another_order_are_not(tmp_path):
    rows = sales()
    DICE.shuffle(rows)
    prepared, notes = started(tmp_path, write_table(tmp_path / "a.csv", rows))
    assert "split" not in prepared
    assert "ordered by" not in notes


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"user_id": lambda at: f"u{at % 90}"}, "rows of one user_id are kept in one split"),
        (
            {"back": lambda at: "no" if at > 880 else "yes"},
            "by time train would have one value of back, 'yes'",
        ),
    ],
    ids=["groups", "labels"],
)
def test_why_a_time_does_not_decide_is_said(tmp_path, more, reason):
    prepared, notes = started(tmp_path, write_table(tmp_path / "a.csv", sales(**more)))
    assert "split" not in prepared
    assert "rows are ordered by sold, but the split is by a hash: " in notes
    assert reason in notes


def test_files_named_for_splits_are_taken_as_such(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "sold"} for row in sales()]
    for row in rows[600:]:
        row["back"] = f" {row['back'].title()}."
    train = write_table(tmp_path / "adult.data", rows[:600])
    test = write_table(tmp_path / "adult.test", rows[600:])
    prepared, notes = started(tmp_path, train, test)
    assert prepared["files"] == {"train": ["../adult.data"], "test": ["../adult.test"]}
    assert "split by the names of the files (train: adult.data; test: adult.test)" in notes
    label = load_workload(str(tmp_path / "own")).label
    assert (label.positive, label.spellings) == ("yes", {"Yes.": "yes", "No.": "no"})
    options = PrepareOptions(files={"train": train, "test": test})
    out = tmp_path / "out"
    manifest = prepare(str(tmp_path / "own"), output_dir=out, data_dir=out, options=options)
    assert manifest["splits"]["test"]["num_examples"] == 400
    assert manifest["rows"]["written"] == 1000


def test_other_values_of_a_label_are_no_spellings(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "sold"} for row in sales()]
    for row in rows[600:]:
        row["back"] = DICE.choice(["perhaps", row["back"]])
    train = write_table(tmp_path / "train.csv", rows[:600])
    started(tmp_path, train, write_table(tmp_path / "test.csv", rows[600:]))
    assert load_workload(str(tmp_path / "own")).label.spellings == {}


def test_numbers_and_lists_have_no_spellings(tmp_path):
    rows = [{"age": DICE.randint(1, 90), "paid": DICE.randint(1, 400)} for _ in range(400)]
    rows += [{"age": row["age"], "paid": f"{row['paid']}."} for row in rows]
    train = write_table(tmp_path / "train.csv", rows[:400])
    started(tmp_path, train, write_table(tmp_path / "test.csv", rows[400:]), label="paid")
    assert load_workload(str(tmp_path / "own")).label == Regression("paid")
