import datetime
import gzip
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import tensorflow as tf
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from components.prepare_examples.parts import PartResult, Tally, finish
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.reading import bigquery
from tests.support.data.prepared import files_of, quarantined
from trainer.workloads.data_sets import TAXI as SOURCE
from trainer.workloads.taxi import workload as taxi

FEATURES = [feature.name for feature in taxi.features]
LABEL = taxi.label.column
THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(self, address):
        assert address[0] in {"127.0.0.1", "localhost", "::1"} or isinstance(address, str), address
        return original(self, address)

    original = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture
def run(tmp_path):
    """Prepare files into `out`; return the manifest."""

    def do(*files: Path, **options):
        chosen = PrepareOptions(files=[str(file) for file in files], **options)
        return prepare("taxi", output_dir=tmp_path / "out", data_dir=tmp_path, options=chosen)

    return do


@pytest.fixture
def trips(taxi_rows, write_csv) -> SimpleNamespace:
    """Functions to `make` trips and to `write` them."""
    return SimpleNamespace(make=taxi_rows, write=write_csv)


def examples_of(folder: Path, split: str) -> list[dict]:
    """Return each example as a dict of single values."""
    files = sorted(str(path) for path in folder.glob(f"{split}-*"))
    kind = "GZIP" if files[0].endswith(".gz") else ""
    found = []
    for record in tf.data.TFRecordDataset(files, kind).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        lists = {name: getattr(f, f.WhichOneof("kind")).value for name, f in features.items()}
        assert all(len(values) == 1 for values in lists.values())
        found.append({name: values[0] for name, values in lists.items()})
    return found


def all_examples(folder: Path) -> list[dict]:
    return [item for split in ("train", "eval", "test") for item in examples_of(folder, split)]


def test_every_row_becomes_an_example_with_its_present_features(
    tmp_path, run, taxi_rows, write_csv
):
    rows = taxi_rows(60)
    manifest = run(write_csv(rows))
    found = {item["trip_start_timestamp"]: item for item in all_examples(tmp_path / "out")}
    assert manifest["rows"] == {"read": 60, "written": 60, "quarantined": 0, "filtered": 0}
    assert len(found) == 60
    for row in rows:
        example = found[int(row["trip_start_timestamp"])]
        present = {name for name in FEATURES if row[name]}
        start = datetime.datetime.fromtimestamp(int(row["trip_start_timestamp"]), datetime.UTC)
        assert set(example) == {*present, LABEL}
        assert example["fare"] == pytest.approx(float(row["fare"]))
        assert example.get("company", b"").decode() == row["company"]
        assert example["trip_start_hour"] == start.hour
        assert example["trip_start_day"] == start.isoweekday() % 7 + 1
        assert example["trip_start_month"] == start.month
        assert example[LABEL] == int(float(row["tips"]) > 0.2 * float(row["fare"]))


def test_the_statistics_are_those_of_the_rows(tmp_path, run, taxi_rows, write_csv):
    run(write_csv(taxi_rows(100)))
    content = json.loads((tmp_path / "out" / "statistics.json").read_text())
    for split, found in content["splits"].items():
        examples = examples_of(tmp_path / "out", split)
        fares = [item["fare"] for item in examples]
        assert found["num_examples"] == len(examples)
        fare, company = found["features"]["fare"], found["features"]["company"]
        assert (fare["min"], fare["max"]) == (min(fares), max(fares))
        assert fare["mean"] == pytest.approx(sum(fares) / len(fares))
        assert company["num_missing"] == sum("company" not in item for item in examples)
        assert company["top_values"] == [["Blue, Inc.", company["num_present"]]]


def test_the_same_rows_give_the_same_bytes_on_any_number_of_workers(
    tmp_path, run, taxi_rows, write_csv
):
    path = write_csv(taxi_rows(500))
    run(path)
    one = files_of(tmp_path / "out")
    run(path, beam_options=THREADS)
    assert files_of(tmp_path / "out") == one


def test_a_row_is_in_the_same_split_whatever_file_it_comes_in(tmp_path, run, taxi_rows, write_csv):
    rows = taxi_rows(120)
    run(write_csv(rows))
    key = "trip_start_timestamp"
    one = {item[key] for item in examples_of(tmp_path / "out", "test")}
    run(write_csv(rows[70:], "b.csv"), write_csv(rows[:70], "a.csv"))
    assert {item[key] for item in examples_of(tmp_path / "out", "test")} == one


def test_gzip_parquet_and_many_files_give_the_same_examples(tmp_path, run, taxi_rows, write_csv):
    path = write_csv(taxi_rows(90))
    run(path)
    plain = sorted(map(str, all_examples(tmp_path / "out")))
    (tmp_path / "trips.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    parquet.write_table(arrow_csv.read_csv(path), tmp_path / "t.parquet", row_group_size=40)
    for name in ("trips.csv.gz", "t.parquet"):
        manifest = run(tmp_path / name)
        assert manifest["rows"]["written"] == 90
        assert sorted(map(str, all_examples(tmp_path / "out"))) == plain
        assert len(manifest["splits"]["train"]["shards"]) == 4


def test_bigquery_types_are_taken_from_parquet(tmp_path, run, taxi_rows, write_csv):
    table = arrow_csv.read_csv(write_csv(taxi_rows(50)))
    times = table["trip_start_timestamp"].cast(pa.timestamp("s")).cast(pa.timestamp("us", "UTC"))
    keys = pa.array([f"{number:040x}" for number in range(50)])
    table = table.drop_columns(["trip_start_hour", "trip_start_day", "trip_start_month"])
    table = table.set_column(
        table.column_names.index("trip_start_timestamp"), "trip_start_timestamp", times
    )
    parquet.write_table(table.append_column("unique_key", keys), tmp_path / "t.parquet")
    manifest = run(tmp_path / "t.parquet", time_zone="UTC")
    assert "by a hash of unique_key" in manifest["split_rule"]
    example = min(all_examples(tmp_path / "out"), key=lambda item: item["trip_start_timestamp"])
    assert example["trip_start_timestamp"] == 1_400_000_400  # Tuesday 13 May 2014, 17:00
    assert [example[f"trip_start_{name}"] for name in ("hour", "day", "month")] == [17, 3, 5]
    assert "unique_key" not in example


def test_the_portals_names_and_times_are_supported(tmp_path, run, taxi_rows, write_csv):
    names = {"pickup_latitude": "Pickup Centroid Latitude", "dropoff_latitude": None}
    rows = []
    for row in taxi_rows(50):
        portal = {
            names.get(name) or name.replace("_", " ").title(): value for name, value in row.items()
        }
        portal["Trip Start Timestamp"] = "05/13/2014 05:00:00 PM"
        rows.append({"Trip ID": row["trip_start_timestamp"], "Taxi ID": "x", **portal})
    for row in rows:
        del row["Trip Start Hour"]
    manifest = run(write_csv(rows))
    assert manifest["rows"]["written"] == 50
    assert {item["trip_start_hour"] for item in all_examples(tmp_path / "out")} == {17}


IMPOSSIBLE = [
    ("fare", "-3", "-3 is impossible; allowed: 0 to 10,000 $"),
    ("fare", "abc", "'abc' is not a number"),
    ("fare", "", "is missing"),
    ("trip_miles", "9999", "9999 is impossible"),
    ("trip_seconds", "-1", "-1 is impossible"),
    ("pickup_latitude", "0", "0 is impossible"),
    ("dropoff_longitude", "87.6", "87.6 is impossible"),
    ("pickup_community_area", "7.5", "7.5 is not a whole number"),
    ("pickup_community_area", "78", "78 is impossible"),
    ("trip_miles", "inf", "inf is impossible"),
    ("trip_start_timestamp", "yesterday", "'yesterday'"),
    ("tips", "NaN", "nan is impossible"),
]


def test_impossible_values_are_quarantined_with_their_rows_and_reasons(run, trips):
    rows = trips.make(60)
    for number, (column, value, _) in enumerate(IMPOSSIBLE):
        rows[21 + 3 * number][column] = value
    path = trips.write(rows)
    manifest = run(path, max_quarantine=0.5)
    assert manifest["rows"] == {"read": 60, "written": 48, "quarantined": 12, "filtered": 0}
    assert manifest["quarantine"]["by_column"] == Counter(column for column, _, _ in IMPOSSIBLE)
    entries = sorted(quarantined(path.parent / "out"), key=lambda entry: entry["row"])
    for number, (entry, bad) in enumerate(zip(entries, IMPOSSIBLE, strict=True)):
        column, _, reason = bad
        row = 21 + 3 * number
        assert (entry["file"], entry["row"], entry["column"]) == (str(path), row + 1, column)
        assert reason in entry["reason"]
        assert str(entry["record"]["trip_miles"]).startswith(rows[row]["trip_miles"])
    assert len(all_examples(path.parent / "out")) == 48


@pytest.mark.parametrize(("change", "fields"), [("1,2,3", 3), ("{},7", 19)], ids=["few", "many"])
def test_a_ragged_row_is_quarantined(run, trips, change, fields):
    path = trips.write(trips.make(60))
    lines = path.read_text().split("\n")
    lines[30] = change.format(lines[30])
    path.write_text("\n".join(lines))
    manifest = run(path)
    (entry,) = quarantined(path.parent / "out")
    assert manifest["rows"]["quarantined"] == 1
    assert (entry["row"], entry["record"]) == (30, lines[30])
    assert entry["reason"] == f"{fields} fields instead of 18"


def test_invalid_utf8_is_quarantined(tmp_path, run, taxi_rows, write_csv):
    path = write_csv(taxi_rows(60))
    path.write_bytes(path.read_bytes().replace(b"Blue", b"Bl\xffe", 1))
    manifest = run(path)
    (entry,) = quarantined(tmp_path / "out")
    assert (entry["column"], manifest["rows"]["written"]) == ("company", 59)
    assert entry["reason"] == r"'Bl\\xffe, Inc.' is not UTF-8"


def test_quotes_and_newlines_in_fields_are_kept_wherever_the_file_is_cut(
    tmp_path, run, taxi_rows, write_csv
):
    rows = taxi_rows(80)
    for row in rows:
        row["company"] = 'The "Blue"\nCab, Inc.\n\nSouth'
    manifest = run(write_csv(rows), num_shards={"train": 23})
    assert manifest["rows"]["written"] == 80
    found = {item["company"].decode() for item in all_examples(tmp_path / "out")}
    assert found == {'The "Blue"\nCab, Inc.\n\nSouth'}


def test_a_byte_order_mark_and_blank_lines_are_ignored(tmp_path, run, taxi_rows, write_csv):
    path = write_csv(taxi_rows(50))
    text = path.read_text().replace("\n", "\r\n\r\n").rstrip()
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert run(path)["rows"] == {"read": 50, "written": 50, "quarantined": 0, "filtered": 0}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", r"trips\.csv .*empty"),
        (b"a,b\n1,2\n", r"trips\.csv: .*'tips'"),
        (b"\n1,2\n", r"trips\.csv: .*first line"),
        (b"\xe4,b\n1,2\n", r"trips\.csv: .*header.*UTF-8"),
        (b"PAR1 but no Parquet", r"trips\.csv .*Parquet"),
    ],
    ids=["empty", "column missing", "blank", "latin-1", "parquet"],
)
def test_a_file_that_is_not_a_table_is_refused_by_name(tmp_path, run, content, problem):
    (tmp_path / "trips.csv").write_bytes(content)
    with pytest.raises(DataError, match=problem):
        run(tmp_path / "trips.csv")
    assert not (tmp_path / "out").exists()


def test_a_header_alone_is_refused(tmp_path, run, taxi_rows, write_csv):
    path = write_csv(taxi_rows(1))
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(DataError, match=r"trips\.csv .*header.*no rows"):
        run(path)


def test_an_unknown_column_is_refused_unless_ignored(run, taxi_rows, write_csv):
    path = write_csv([{**row, "weather": "rain"} for row in taxi_rows(40)])
    with pytest.raises(DataError, match=r"trips\.csv: .*'weather'.*ignore_columns"):
        run(path)
    assert run(path, ignore_columns=["weather"])["rows"]["written"] == 40


def test_a_duplicate_column_is_refused(run, taxi_rows, write_csv):
    path = write_csv(taxi_rows(2))
    path.write_text(path.read_text().replace("trip_miles", "fare", 1))
    with pytest.raises(DataError, match=r"trips\.csv: .*'fare'.*twice"):
        run(path)


def test_a_truncated_gzip_file_is_refused_by_name(tmp_path, run, taxi_rows, write_csv):
    content = gzip.compress(write_csv(taxi_rows(300)).read_bytes())
    (tmp_path / "trips.csv.gz").write_bytes(content[:-300])
    with pytest.raises(DataError, match=r"trips\.csv\.gz .*gzip"):
        run(tmp_path / "trips.csv.gz")
    assert not (tmp_path / "out").exists()


def test_a_pattern_that_matches_nothing_is_named(tmp_path, run):
    with pytest.raises(DataError, match=r"absent-\*\.csv"):
        run(tmp_path / "absent-*.csv")


def test_an_unclosed_quote_is_an_error_with_its_row(run, taxi_rows, write_csv):
    path = write_csv(taxi_rows(40))
    lines = path.read_text().split("\n")
    lines[20] = lines[20].replace("Cash", '"Cash')
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"trips\.csv, row 20: .*quote"):
        run(path)


def test_all_labels_equal_is_an_error(run, taxi_rows, write_csv):
    rows = [{**row, "tips": "0"} for row in taxi_rows(60)]
    with pytest.raises(DataError, match=r"big_tipper is 0 .*train"):
        run(write_csv(rows))


def test_an_empty_split_is_an_error(run, taxi_rows, write_csv):
    rows = [{**row, "trip_start_timestamp": "1400000400"} for row in taxi_rows(60)]
    with pytest.raises(DataError, match=r"split .*empty.*trip_start_timestamp.*split_key"):
        run(write_csv(rows))


def test_when_every_row_is_bad_the_error_says_why(run, taxi_rows, write_csv):
    with pytest.raises(DataError, match=r"20 rows.*trip_miles 20"):
        run(write_csv([{**row, "trip_miles": "-1"} for row in taxi_rows(20)]), max_quarantine=1)


def test_too_many_bad_rows_stop_the_run_with_columns_values_and_rows(
    tmp_path, run, taxi_rows, write_csv
):
    rows = taxi_rows(100)
    for number in range(10, 15):
        rows[number]["trip_miles"] = f"-{number}"
    rows[70]["fare"] = "abc"
    path = write_csv(rows)
    with pytest.raises(DataError) as caught:
        run(path, num_shards={"train": 3})
    told = str(caught.value)
    assert told.startswith(
        "6 of 100 rows (6.0%) are bad, and max_quarantine is 5.0%: trip_miles 5 "
        f"({path} row 11: -10 is impossible; allowed: 0 to 3,500 miles; row 12: -11 is impossible; "
    )
    assert f"fare 1 ({path} row 71: 'abc' is not a number)" in told
    assert "row 14" not in told
    assert not (tmp_path / "out").exists()
    manifest = run(path, max_quarantine=0.06)
    assert manifest["rows"]["quarantined"] == 6
    assert manifest["settings"]["max_quarantine"] == 0.06


def test_a_derived_feature_of_the_input_is_not_read(tmp_path, run, taxi_rows, write_csv):
    rows = taxi_rows(60)
    for row in rows:
        del row["trip_start_hour"], row["trip_start_day"]
    run(write_csv(rows))
    expected = sorted(map(str, all_examples(tmp_path / "out")))
    for number, row in enumerate(rows):
        row["trip_start_hour"] = ("", "7.25", "99", "noon", "nan")[number % 5]
    manifest = run(write_csv(rows))
    assert manifest["rows"]["written"] == 60
    assert sorted(map(str, all_examples(tmp_path / "out"))) == expected


def test_a_limit_takes_the_first_rows_over_all_files(tmp_path, run, taxi_rows, write_csv):
    rows = taxi_rows(120)
    files = [write_csv(rows[:50], "a.csv"), write_csv(rows[50:], "b.csv")]
    assert run(*files, max_examples=70)["rows"]["read"] == 70
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(files[0].read_bytes()))
    assert run(tmp_path / "a.csv.gz", files[1], max_examples=30)["rows"]["read"] == 30


def test_uncompressed_files_are_named_so(tmp_path, run, taxi_rows, write_csv):
    manifest = run(write_csv(taxi_rows(60)), compression="none")
    assert manifest["compression"] == ""
    assert (tmp_path / "out" / "train-00000-of-00004.tfrecord").exists()
    assert len(all_examples(tmp_path / "out")) == 60


def test_results_merge_in_any_order():
    def part(file):
        statistics = {split: {} for split in ("train", "eval", "test")}
        tally = Tally(read=1, quarantined=Counter(fare=1))
        return PartResult([{"file": file}], [], statistics, tally)

    merged = finish([part("b"), part("a")])
    assert [shard["file"] for shard in merged["shards"]] == ["a", "b"]
    assert (merged["tally"]["read"], merged["tally"]["quarantined"]) == (2, {"fare": 2})


def test_a_killed_run_leaves_no_folder_that_looks_complete(tmp_path, taxi_rows, write_csv):
    path, output = write_csv(taxi_rows(30_000)), tmp_path / "out"
    command = [sys.executable, "-m", "components.prepare_examples", "--workload", "taxi"]
    process = subprocess.Popen(
        [*command, "--files", str(path), "--output-dir", str(output)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.*/.train-*.partial")):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "no shard was begun in 60 s"
        time.sleep(0.002)
    process.kill()
    process.wait(60)
    assert not output.exists()
    assert not list(tmp_path.rglob("manifest.json"))


def test_rows_of_bigquery_become_examples(tmp_path, monkeypatch, taxi_rows, write_csv):
    table = arrow_csv.read_csv(write_csv(taxi_rows(50)))
    times = table["trip_start_timestamp"].cast(pa.timestamp("s")).cast(pa.timestamp("us", "UTC"))
    at = table.column_names.index("trip_start_timestamp")
    table = table.set_column(at, "trip_start_timestamp", times)
    table = table.append_column("unique_key", pa.array([f"{number:040x}" for number in range(50)]))
    rows = SimpleNamespace(to_arrow_iterable=table.select(SOURCE.bigquery.columns).to_batches)
    job = SimpleNamespace(result=lambda: rows)
    changed = SimpleNamespace(modified=datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC))
    client = SimpleNamespace(query=lambda text: job, get_table=lambda name: changed)
    monkeypatch.setattr(bigquery, "connect", lambda project: client)
    options = PrepareOptions(source="bigquery", project="p", limit=50)
    manifest = prepare("taxi", output_dir=tmp_path / "out", data_dir=tmp_path, options=options)
    assert manifest["rows"]["written"] == 50
    assert manifest["query"].endswith("LIMIT 50")
    assert {item["trip_start_month"] for item in all_examples(tmp_path / "out")} == {5}
