"""The splits of tables, images and records: by time, by values, by groups and by files."""

import datetime
import json
from pathlib import Path

import pytest
import tensorflow as tf
from PIL import Image

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import notes, prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.csv_tables import write_table
from trainer import Json
from trainer.errors import ConfigError

NUM_ROWS = 400
FIRST = datetime.datetime(2025, 1, 1)
TABLE = 'Table([Number("n")], label=Binary("y", positive="yes"), only_read=[Timestamp("at")], {})'
RECORDS = 'Records({{"n": Values("int64")}}, label=Binary("y"), model=len, {})'


def declare(folder: Path, text: str) -> str:
    folder.mkdir(exist_ok=True)
    names = "Binary, ImageFolder, Number, Records, Split, Table, Timestamp, Values"
    (folder / "workload.py").write_text(f"from trainyard import {names}\nworkload = {text}\n")
    return str(folder)


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
def run(tmp_path):
    """Prepare files; return the manifest."""

    def do(text: str, *files, **options) -> Json:
        reference = declare(tmp_path / "own", text)
        chosen = PrepareOptions(**{"files": files, "num_shards": {"train": 1}, **options})
        return prepare(reference, output_dir=tmp_path / "out", data_dir=tmp_path, options=chosen)

    return do


@pytest.fixture
def run_rows(run, tmp_path):
    def do(rows=None, more='ignored=["customer", "part"]', **options) -> Json:
        return run(
            TABLE.format(more), write_table(tmp_path / "rows.csv", rows or make_rows()), **options
        )

    return do


def numbers_of(folder: Path, split: str) -> list[int]:
    """Return the feature `n` of the examples of a split, in order."""
    files = sorted(map(str, folder.glob(f"{split}-*.tfrecord.gz")))
    found = []
    for record in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature["n"]
        found += [*feature.float_list.value, *feature.int64_list.value]
    return sorted(map(int, found))


def splits_of(folder: Path) -> list[list[int]]:
    return [numbers_of(folder, split) for split in ("train", "eval", "test")]


WINDOWS = {"by": "at", "eval": "20d", "test": "30d"}


def test_windows_of_time_end_with_the_data(tmp_path, run_rows):
    manifest = run_rows(split=WINDOWS)
    assert splits_of(tmp_path / "out") == [[*range(300)], [*range(300, 340)], [*range(340, 400)]]
    assert manifest["split_rule"] == "by at (time of UTC): eval 20d; test 30d"
    assert manifest["split"]["starts"] == {"eval": "2025-05-31", "test": "2025-06-20"}
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Split by at (time of UTC): eval 20d; test 30d" in page
    assert "eval from 2025-05-31, test from 2025-06-20" in page


def test_the_bytes_do_not_depend_on_the_workers(tmp_path, run_rows):
    first = run_rows(split=WINDOWS, split_key=["customer"], num_shards={"train": 3})
    second = run_rows(
        split=WINDOWS,
        split_key=["customer"],
        num_shards={"train": 3},
        beam_options=("--runner=DirectRunner", "--direct_num_workers=2"),
    )
    assert first["splits"] == second["splits"]


def test_a_moving_window_moves_those_of_the_splits(tmp_path, run_rows):
    run_rows(split=WINDOWS, window="100d", run_date="2025-06-01")
    days = [[one // 2 for one in numbers] for numbers in splits_of(tmp_path / "out")]
    last = (datetime.datetime(2025, 6, 1) - FIRST).days - 1
    assert [(some[0], some[-1]) for some in days] == [
        (last - 99, last - 50),
        (last - 49, last - 30),
        (last - 29, last),
    ]


def test_rows_outside_of_the_windows_are_counted_and_said(tmp_path, run_rows):
    rows = make_rows()
    for number in (5, 350):
        rows[number]["at"] = ""
    rows[7]["at"] = "soon"
    manifest = run_rows(
        rows, split={"by": "at", "train": "50d", "eval": "2025-06-01", "test": "4w"}
    )
    outside = {"without at": 2, "with a at before 2025-04-12": 200}
    assert manifest["split"]["outside"] == outside
    counts = {"written": 197, "quarantined": 1, "filtered": 0, "outside": 202}
    assert manifest["rows"] == {"read": 400, **counts}
    assert "rows in no split: 200 with a at before 2025-04-12, 2 without at" in notes(manifest)


def test_the_windows_end_with_the_last_row_that_has_a_label(tmp_path, run_rows):
    rows = make_rows()
    for row in rows[300:]:
        row["y"] = ""
    run_rows(rows, split=WINDOWS)
    assert splits_of(tmp_path / "out")[2] == [*range(240, 300)]


def test_days_are_those_of_the_declared_time_zone(tmp_path, run):
    rows = make_rows()
    for row in rows:
        row["at"] += "+00:00"
    text = TABLE.replace('Timestamp("at")', 'Timestamp("at", time_zone="Asia/Tokyo")')
    file = write_table(tmp_path / "rows.csv", rows)
    manifest = run(text.format('ignored=["customer", "part"]'), file, split=WINDOWS)
    assert "(time of Asia/Tokyo)" in manifest["split_rule"]
    # The last row is at 21:00 in Tokyo, that before it at 9:00: a day has an even row first.
    assert splits_of(tmp_path / "out")[2][0] % 2 == 0


def test_rows_of_a_group_are_in_the_split_of_the_first(tmp_path, run_rows):
    rows = make_rows()
    rows[399]["customer"], rows[398]["customer"], rows[310]["customer"] = "c0", "c155", "c1"
    manifest = run_rows(rows, 'group_by=["customer"], ignored=["part"]', split=WINDOWS)
    train, eval_, test = splits_of(tmp_path / "out")
    assert {399, 398} & {*test} == set()
    assert 310 not in eval_
    assert len(train) == 300
    assert manifest["split"]["outside"] == {"of a customer that an earlier split has": 3}
    assert "rows of one customer in one split" in manifest["split_rule"]


def test_a_split_without_a_window_is_taken_from_train_by_the_hash_of_the_group(tmp_path, run_rows):
    more = 'group_by=["customer"], ignored=["part"]'
    manifest = run_rows(None, more, split={"by": "at", "test": "30d"})
    train, eval_, test = splits_of(tmp_path / "out")
    assert test == [*range(340, 400)]
    assert 15 < len(eval_) < 60
    assert {one // 2 for one in train}.isdisjoint(one // 2 for one in eval_)
    assert "others by a hash of customer: " in manifest["split_rule"]


@pytest.mark.parametrize(
    ("split", "parts"),
    [
        ({"by": "part", "eval": "b", "test": ["c", "d"]}, ["a", "b", "cd"]),
        ({"by": "part", "train": ["a"], "eval": ["b"], "test": "c"}, ["a", "b", "c"]),
    ],
    ids=["all others", "named"],
)
def test_values_of_a_column_decide(tmp_path, run_rows, split, parts):
    manifest = run_rows(None, 'ignored=["customer"]', split=split)
    found = [{"abcd"[one // 2 % 4] for one in numbers} for numbers in splits_of(tmp_path / "out")]
    assert found == [{*some} for some in parts]
    left = 100 * (4 - len("".join(parts)))
    assert manifest["rows"].get("outside", 0) == left
    assert manifest["split"].get("outside") == ({"with another part": 100} if left else None)


def test_numbers_and_truth_values_decide_as_they_are_written(tmp_path, run):
    rows = [{**row, "year": 2020 + row["n"] % 4} for row in make_rows()]
    text = TABLE.replace('[Number("n")]', '[Number("n"), Number("year")]')
    file = write_table(tmp_path / "rows.csv", rows)
    more = 'ignored=["customer", "part", "at"], split=Split("year", eval=2022, test=[2023.0])'
    run(text.replace(', only_read=[Timestamp("at")]', "").format(more), file)
    found = [{one % 4 for one in numbers} for numbers in splits_of(tmp_path / "out")]
    assert found == [{0, 1}, {2}, {3}]


def test_each_split_may_have_its_own_files(tmp_path, run):
    rows = make_rows()
    train, test = (
        write_table(tmp_path / "a.csv", rows[:300]),
        write_table(tmp_path / "b.csv", rows[300:]),
    )
    text = TABLE.format('ignored=["customer", "part"]')
    manifest = run(text, files={"train": train, "test": [test]})
    found = splits_of(tmp_path / "out")
    assert found[2] == [*range(300, 400)]
    assert sorted([*found[0], *found[1]]) == [*range(300)]
    assert 15 < len(found[1]) < 60
    assert manifest["split_rule"].startswith("by files: train a.csv; test b.csv; others by a hash")
    assert [one["file"] for one in manifest["sources"]] == ["a.csv", "b.csv"]


def test_files_may_be_named_without_their_folder(tmp_path, run):
    rows = make_rows()
    folder = tmp_path / "all"
    folder.mkdir()
    write_table(folder / "one.csv", rows[:300]), write_table(folder / "two.csv", rows[300:])
    text = TABLE.format('ignored=["customer", "part"], split=Split("files", test="tw*.csv")')
    run(text, str(folder))
    assert numbers_of(tmp_path / "out", "test") == [*range(300, 400)]


def test_truth_values_decide_however_they_are_written(tmp_path, run):
    rows = [{**row, "part": ("True", "false")[row["n"] % 4 > 0]} for row in make_rows()]
    text = TABLE.format('ignored=["customer"], split=Split("part", test=True)')
    run(text, write_table(tmp_path / "rows.csv", rows))
    assert numbers_of(tmp_path / "out", "test") == [*range(0, 400, 4)]


def test_each_split_may_have_its_own_folders_of_images(tmp_path, run):
    for number, name in enumerate(("Training", "Testing")):
        for colour in ("red", "blue"):
            folder = tmp_path / "photos" / name / colour
            folder.mkdir(parents=True)
            for place in range(30 - 20 * number):
                Image.new("RGB", (8, 8), (number, place, 0)).save(folder / f"{place}.png")
    photos = tmp_path / "photos"
    text = "ImageFolder(size=(8, 8))"
    manifest = run(text, files={"train": f"{photos}/Training", "test": f"{photos}/Testing"})
    assert manifest["splits"]["test"]["num_examples"] == 20
    assert manifest["split_rule"].startswith("by files: train Training; test Testing; others by")
    again = run(text, str(photos), split={"by": "files", "test": "Testing"})
    assert again["splits"] == manifest["splits"]
    with pytest.raises(DataError, match="split is by camera, but images in class folders have no"):
        run(text, str(photos), split={"by": "camera", "test": "7"})


def record(**values) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list={"value": [value]})
        if isinstance(value, bytes)
        else tf.train.Feature(int64_list={"value": [value]})
        for name, value in values.items()
    }
    return tf.train.Example(features={"feature": features}).SerializeToString()


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ({"by": "at", "eval": "20d", "test": "30d"}, [300, 40, 60]),
        ({"by": "camera", "eval": "b", "test": ["c", "d"]}, [100, 100, 200]),
    ],
    ids=["time", "values"],
)
def test_features_of_records_decide_as_columns_do(tmp_path, run, split, expected):
    path = tmp_path / "all.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for row in make_rows():
            seconds = int(datetime.datetime.fromisoformat(row["at"] + "+00:00").timestamp())
            is_yes, camera = int(row["y"] == "yes"), row["part"].encode()
            file.write(record(n=row["n"], y=is_yes, at=seconds, camera=camera))
    manifest = run(RECORDS.format(""), str(path), split=split)
    assert [part["num_examples"] for part in manifest["splits"].values()] == expected


def test_records_of_a_group_are_in_one_split(tmp_path, run):
    path = tmp_path / "all.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(600):
            file.write(record(n=number, y=number % 2, who=number // 6))
    manifest = run(RECORDS.format(""), str(path), split_key=["who"])
    groups = [{one // 6 for one in numbers} for numbers in splits_of(tmp_path / "out")]
    assert sum(map(len, groups)) == 100
    assert manifest["split_rule"].startswith("by a hash of who: ")


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
        ({"by": "prat", "test": "z"}, "the column 'prat' is missing.*did you mean 'part'"),
        ({"by": "files", "test": "none.csv"}, "none.csv matches no file"),
    ],
    ids=lambda one: str(one)[:40],
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
    ids=lambda one: str(one)[:40],
)
def test_a_rule_that_cannot_be_is_refused_before_any_data_is_read(options, message):
    with pytest.raises(ConfigError, match=message):
        PrepareOptions(**options)


def test_options_with_a_rule_survive_their_json():
    options = PrepareOptions(files={"train": ["/a", "/b"], "test": "/c"})
    assert options.files == ("/a", "/b", "/c")
    changed = json.loads(json.dumps(options.changed()))
    assert PrepareOptions.from_values(changed) == options
