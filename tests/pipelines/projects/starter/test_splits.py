"""`trainyard new --table`: the split that rows ordered by a time, or names of files, suggest."""

import datetime
import random
import re

import pytest
import yaml

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.starter.folder import write_folder
from pipelines.projects.starter.tables import start_table
from tests.support.data.csv_tables import write_table

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


def started(tmp_path, *files: str):
    """Return the settings of `prepare`, and the notes."""
    start = start_table(files, "back")
    folder = tmp_path / "own"
    write_folder(folder, start)
    return yaml.safe_load((folder / "run.yaml").read_text())["prepare"], "\n".join(start.notes)


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (sales(), "eval: 25d, test: 25d"),
        (sales()[::-1], "eval: 25d, test: 25d"),
        (sales(hours=0.05), "eval: 5h, test: 5h"),
    ],
    ids=["rising", "falling", "hours"],
)
def test_a_time_that_orders_the_rows_is_said_with_the_split_by_it(tmp_path, rows, rule):
    prepared, notes = started(tmp_path, write_table(tmp_path / "a.csv", rows))
    assert "split" not in prepared
    [said] = re.findall(r"rows are ordered by sold, .* write split: (\{.*\}) below prepare", notes)
    assert said == f'{{by: "sold", {rule}}}'
    options = PrepareOptions(files=(str(tmp_path / "a.csv"),), split=yaml.safe_load(said))
    out = tmp_path / "out"
    manifest = prepare(str(tmp_path / "own"), output_dir=out, data_dir=out, options=options)
    shares = [split["num_examples"] / len(rows) for split in manifest["splits"].values()]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.025)


def test_rows_in_another_order_are_not(tmp_path):
    rows = sales()
    DICE.shuffle(rows)
    assert "ordered by" not in started(tmp_path, write_table(tmp_path / "a.csv", rows))[1]


def test_files_named_for_splits_are_taken_as_such(tmp_path):
    train = write_table(tmp_path / "adult.data", sales(600))
    test = write_table(tmp_path / "adult.test", sales(400))
    prepared, notes = started(tmp_path, train, test)
    assert prepared["files"] == {"train": ["../adult.data"], "test": ["../adult.test"]}
    assert "split by the names of the files (train: adult.data; test: adult.test)" in notes
    options = PrepareOptions(files={"train": train, "test": test})
    out = tmp_path / "out"
    manifest = prepare(str(tmp_path / "own"), output_dir=out, data_dir=out, options=options)
    assert manifest["splits"]["test"]["num_examples"] == 400
    assert manifest["rows"]["written"] == 1000


@pytest.mark.parametrize("value", ["perhaps", "Yes."])
def test_values_of_a_label_that_no_file_that_trains_has_are_refused(tmp_path, value):
    train = write_table(tmp_path / "train.csv", sales(60))
    test = write_table(tmp_path / "test.csv", sales(40, back=lambda at: value if at else "no"))
    with pytest.raises(DataError, match=f"label back: no file that trains has '{value}'; write"):
        started(tmp_path, train, test)
