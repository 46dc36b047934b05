"""The splits of tables, images and records: by time, by values, by groups and by files."""

import datetime
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import notes
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.csv_tables import write_table
from tests.support.data.examples import make_example
from tests.support.data.files import write_files
from tests.support.data.prepared import Prepared
from trainer import Json
from trainer.errors import ConfigError
from trainer.workloads.encoding.image_files import encode_png

NUM_ROWS = 400
FIRST = datetime.datetime(2025, 1, 1)
TABLE = 'Table([Number("n")], label=Binary("y", positive="yes"), only_read=[Timestamp("at")], {})'
RECORDS = 'Records({"n": Values("int64")}, label=Binary("y"), model=len)'
IGNORED = 'ignored=["customer", "part"]'
WINDOWS = {"by": "at", "eval": "20d", "test": "30d"}


def make_rows(count: int = NUM_ROWS) -> list[Json]:
    """Return a row for each half day, two of each customer."""
    return [
        {
            "n": number,
            "at": (FIRST + datetime.timedelta(hours=12 * number)).isoformat(" "),
            "customer": f"c{number // 2}",
            "part": ("a", "b", "c", "d")[number // 2 % 4],
            "y": ("yes", "no")[number % 2],
        }
        for number in range(count)
    ]


@pytest.fixture
def run_rows(run):
    """Prepare the rows of a declaration with more arguments."""
    return lambda more=IGNORED, rows=None, **options: run(
        TABLE.format(more), rows or make_rows(), **options
    )


def numbers_of(found: Prepared) -> list[list[int]]:
    """Return the feature `n` of the examples of train, eval and test, in order."""
    return [[*map(int, numbers)] for numbers in found.splits("n")]


def test_windows_of_time_end_with_the_data(run_rows):
    found = run_rows(split=WINDOWS)
    assert numbers_of(found) == [[*range(300)], [*range(300, 340)], [*range(340, 400)]]
    assert found.manifest["split_rule"] == "by at (time of UTC): eval 20d; test 30d"
    assert found.manifest["split"]["starts"] == {"eval": "2025-05-31", "test": "2025-06-20"}
    assert "Split by at (time of UTC): eval 20d; test 30d" in found.report
    assert "eval from 2025-05-31, test from 2025-06-20" in found.report


def test_the_bytes_do_not_depend_on_the_workers(run_rows):
    options = {"split": WINDOWS, "split_key": ["customer"], "num_shards": {"train": 3}}
    two = ("--runner=DirectRunner", "--direct_num_workers=2")
    assert run_rows(**options).shards == run_rows(**options, beam_options=two).shards


def test_a_moving_window_moves_those_of_the_splits(run_rows):
    found = run_rows(split=WINDOWS, window="100d", run_date="2025-06-01")
    days = [[one // 2 for one in numbers] for numbers in numbers_of(found)]
    last = (datetime.datetime(2025, 6, 1) - FIRST).days - 1
    assert [(some[0], some[-1]) for some in days] == [
        (last - 99, last - 50),
        (last - 49, last - 30),
        (last - 29, last),
    ]


def test_rows_outside_of_the_windows_are_counted_and_said(run_rows):
    rows = make_rows()
    rows[5]["at"] = rows[350]["at"] = ""
    rows[7]["at"] = "soon"
    split = {"by": "at", "train": "50d", "eval": "2025-06-01", "test": "4w"}
    found = run_rows(rows=rows, split=split)
    outside = {"without at": 2, "with a at before 2025-04-12": 200}
    assert found.manifest["split"]["outside"] == outside
    assert found.rows == {"read": 400, "written": 197, "quarantined": 1, "outside": 202}
    expected = "rows in no split: 200 with a at before 2025-04-12, 2 without at"
    assert expected in notes(found.manifest)


def test_the_windows_end_with_the_last_row_that_has_a_label(run_rows):
    rows = make_rows()
    for row in rows[300:]:
        row["y"] = ""
    assert numbers_of(run_rows(rows=rows, split=WINDOWS))[2] == [*range(240, 300)]


def test_days_are_those_of_the_declared_time_zone(run):
    rows = [{**row, "at": f"{row['at']}+00:00"} for row in make_rows()]
    text = TABLE.replace('Timestamp("at")', 'Timestamp("at", time_zone="Asia/Tokyo")')
    found = run(text.format(IGNORED), rows, split=WINDOWS)
    assert "(time of Asia/Tokyo)" in found.manifest["split_rule"]
    # The last row is at 21:00 in Tokyo, that before it at 9:00: a day has an even row first.
    assert numbers_of(found)[2][0] % 2 == 0


GROUPED = 'group_by=["customer"], ignored=["part"]'


def test_rows_of_a_group_are_in_the_split_of_the_first(run_rows):
    rows = make_rows()
    rows[399]["customer"], rows[398]["customer"], rows[310]["customer"] = "c0", "c155", "c1"
    found = run_rows(GROUPED, rows, split=WINDOWS)
    train, eval_, test = numbers_of(found)
    assert {399, 398} & {*test} == set()
    assert 310 not in eval_
    assert len(train) == 300
    assert found.manifest["split"]["outside"] == {"of a customer that an earlier split has": 3}
    assert "rows of one customer in one split" in found.manifest["split_rule"]


def test_a_split_without_a_window_is_taken_from_train_by_the_hash_of_the_group(run_rows):
    found = run_rows(GROUPED, split={"by": "at", "test": "30d"})
    train, eval_, test = numbers_of(found)
    assert test == [*range(340, 400)]
    assert 15 < len(eval_) < 60
    assert {one // 2 for one in train}.isdisjoint(one // 2 for one in eval_)
    assert "others by a hash of customer: " in found.manifest["split_rule"]


@pytest.mark.parametrize(
    ("split", "parts"),
    [
        ({"by": "part", "eval": "b", "test": ["c", "d"]}, ["a", "b", "cd"]),
        ({"by": "part", "train": ["a"], "eval": ["b"], "test": "c"}, ["a", "b", "c"]),
    ],
)
def test_values_of_a_column_decide(run_rows, split, parts):
    found = run_rows('ignored=["customer"]', split=split)
    values = [{"abcd"[one // 2 % 4] for one in numbers} for numbers in numbers_of(found)]
    assert values == [{*some} for some in parts]
    left = 100 * (4 - len("".join(parts)))
    assert found.rows.get("outside", 0) == left
    assert found.manifest["split"].get("outside") == ({"with another part": 100} if left else None)


def test_numbers_and_truth_values_decide_however_they_are_written(run):
    rows = [{**row, "year": 2020 + row["n"] % 4} for row in make_rows()]
    text = TABLE.replace('[Number("n")]', '[Number("n"), Number("year")]')
    more = 'ignored=["customer", "part", "at"], split=Split("year", eval=2022, test=[2023.0])'
    found = run(text.replace(', only_read=[Timestamp("at")]', "").format(more), rows)
    values = [{one % 4 for one in numbers} for numbers in numbers_of(found)]
    assert values == [{0, 1}, {2}, {3}]
    rows = [{**row, "part": ("True", "false")[row["n"] % 4 > 0]} for row in make_rows()]
    more = 'ignored=["customer"], split=Split("part", test=True)'
    assert numbers_of(run(TABLE.format(more), rows))[2] == [*range(0, 400, 4)]


def test_each_split_may_have_its_own_files(tmp_path, run_rows):
    rows = make_rows()
    train = write_table(tmp_path / "all/one.csv", rows[:300])
    test = write_table(tmp_path / "all/two.csv", rows[300:])
    found = run_rows(files={"train": train, "test": [test]})
    numbers = numbers_of(found)
    assert numbers[2] == [*range(300, 400)]
    assert sorted([*numbers[0], *numbers[1]]) == [*range(300)]
    assert 15 < len(numbers[1]) < 60
    rule = "by files: train one.csv; test two.csv; others by a hash"
    assert found.manifest["split_rule"].startswith(rule)
    assert [one["file"] for one in found.manifest["sources"]] == ["one.csv", "two.csv"]
    more = f'{IGNORED}, split=Split("files", test="tw*.csv")'  # without the folder
    assert numbers_of(run_rows(more, files=str(tmp_path / "all")))[2] == numbers[2]


def test_each_split_may_have_its_own_folders_of_images(tmp_path, run):
    pictures = {
        f"{name}/{colour}/{place}.png": encode_png(np.full((8, 8, 3), (number, place, 0), np.uint8))
        for number, name in enumerate(("Training", "Testing"))
        for colour in ("red", "blue")
        for place in range(30 - 20 * number)
    }
    photos = write_files(tmp_path / "photos", pictures)
    text = "ImageFolder(size=(8, 8))"
    found = run(text, files={"train": f"{photos}/Training", "test": f"{photos}/Testing"})
    assert found.counts[2] == 20
    rule = "by files: train Training; test Testing; others by"
    assert found.manifest["split_rule"].startswith(rule)
    assert run(text, photos, split={"by": "files", "test": "Testing"}).shards == found.shards
    with pytest.raises(DataError, match="split is by camera, but images in class folders have no"):
        run(text, photos, split={"by": "camera", "test": "7"})


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> Path:
    """A file of records of the rows, with the customers' numbers."""
    path = tmp_path_factory.mktemp("records") / "all.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for row in make_rows():
            seconds = int(datetime.datetime.fromisoformat(f"{row['at']}+00:00").timestamp())
            more = {"y": int(row["y"] == "yes"), "at": seconds, "who": row["n"] // 4}
            file.write(make_example(row | more))
    return path


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        (WINDOWS, [300, 40, 60]),
        ({"by": "part", "eval": "b", "test": ["c", "d"]}, [100, 100, 200]),
    ],
)
def test_features_of_records_decide_as_columns_do(run, records, split, expected):
    assert run(RECORDS, records, split=split).counts == expected


def test_records_of_a_group_are_in_one_split(run, records):
    found = run(RECORDS, records, split_key=["who"])
    groups = [{one // 4 for one in numbers} for numbers in numbers_of(found)]
    assert sum(map(len, groups)) == 100
    assert found.manifest["split_rule"].startswith("by a hash of who: ")


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"by": "at", "eval": "150d", "test": "60d"}, "no row is left for training: at is from"),
        ({"by": "at", "eval": "2025-03-01", "test": "2025-02-01"}, "windows overlap: eval begins"),
        ({"by": "at", "test": "2026-02-01"}, "windows overlap: test begins at 2026-02-01"),
        ({"by": "at", "test": "yesterday"}, "split.test is yesterday, but at is a Timestamp"),
        ({"by": "n", "test": "30d"}, "n is no Timestamp of own .it has at"),
        (
            {"by": "part", "test": "z"},
            "the test split would be empty: the split is by part: test z",
        ),
        ({"by": "prat", "test": "z"}, "the column 'prat' is not in .*did you mean 'part'"),
        ({"by": "files", "test": "none.csv"}, "none.csv matches no file"),
    ],
)
def test_a_wrong_rule_is_named(run_rows, split, message):
    with pytest.raises(DataError, match=message):
        run_rows(split=split)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": {"by": "at"}}, "split is by at, without eval and test; name at least one"),
        ({"split": {"by": "at", "tset": "30d"}}, "split has no 'tset'; did you mean 'test'"),
        ({"split": {"test": "30d"}}, "split.test is 30d, but a hash has only shares"),
        ({"split": {"by": "at", "test": {"a": 1}}}, "split.test is .*; it must be a value"),
        ({"split": {"by": "p", "eval": "a", "test": ["b", "a"]}}, "'a' is in two splits"),
        ({"files": {"train": "a", "tset": "b"}}, "or have the files of train, eval, test"),
        ({"files": {"test": "b"}, "split": {"by": "hash"}}, "files has splits; drop one"),
        ({"split": "at"}, "split is 'at'; it must be values by name"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_before_any_data_is_read(options, message):
    with pytest.raises(ConfigError, match=message):
        PrepareOptions(**options)


def test_options_with_a_rule_survive_their_json():
    options = PrepareOptions(files={"train": ["/a", "/b"], "test": "/c"})
    assert options.files == ("/a", "/b", "/c")
    changed = json.loads(json.dumps(options.changed()))
    assert PrepareOptions(**changed) == options
