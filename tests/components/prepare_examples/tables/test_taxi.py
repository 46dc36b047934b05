import datetime
import gzip
import multiprocessing
import os
import signal
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv

from components.prepare_examples.errors import DataError
from components.prepare_examples.parts import PartResult, Tally, finish
from components.prepare_examples.tfrecords.records import RecordFile
from tests.support.data.prepared import files_of
from trainer.workloads.data_sets import TAXI as SOURCE
from trainer.workloads.taxi import workload as taxi

FEATURES = [feature.name for feature in taxi.features]
LABEL = taxi.label.column
TIME = "trip_start_timestamp"
THREADS = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")


@pytest.fixture
def trips(taxi_rows, write_csv) -> SimpleNamespace:
    """Functions to `make` trips and to `write` them."""
    return SimpleNamespace(make=taxi_rows, write=write_csv)


def test_every_row_becomes_an_example_with_its_present_features(run, taxi_rows):
    rows = taxi_rows(100)
    prepared = run("taxi", rows)
    found = {item[TIME][0]: item for item in prepared.examples()}
    assert prepared.rows == {"read": 100, "written": 100}
    assert len(found) == 100
    for row in rows:
        example = found[int(row[TIME])]
        start = datetime.datetime.fromtimestamp(int(row[TIME]), datetime.UTC)
        assert set(example) == {LABEL, *(name for name in FEATURES if row[name])}
        assert example["fare"] == [float(row["fare"])]
        assert example.get("company", [b""]) == [row["company"].encode()]
        assert example["trip_start_hour"] == [start.hour]
        assert example["trip_start_day"] == [start.isoweekday() % 7 + 1]
        assert example["trip_start_month"] == [start.month]
        assert example[LABEL] == [int(float(row["tips"]) > 0.2 * float(row["fare"]))]
    for split in ("train", "eval", "test"):
        counted, fares = prepared.statistics(split), prepared.values("fare", split)
        fare, company = counted["features"]["fare"], counted["features"]["company"]
        assert counted["num_examples"] == len(fares)
        assert (fare["min"], fare["max"]) == (min(fares), max(fares))
        assert fare["mean"] == pytest.approx(sum(fares) / len(fares))
        assert company["num_missing"] == prepared.values("company", split).count(None)
        assert company["top_values"] == [["Blue, Inc.", company["num_present"]]]


def test_the_same_rows_give_the_same_bytes_on_any_number_of_workers(run, taxi_rows):
    rows = taxi_rows(500)
    here, threads, processes = (
        files_of(run("taxi", rows, num_shards={}, beam_options=flags).folder)
        for flags in ((), THREADS, THREADS[:1])
    )
    assert here == threads == processes


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: b"1,2,3", "3 fields instead of 18"),
        (lambda line: line + b",7", "19 fields instead of 18"),
        (lambda line: line.replace(b"Blue", b"Bl\xffe"), r"'Bl\\xffe, Inc.' is not UTF-8"),
    ],
)
def test_a_line_that_is_no_row_is_quarantined(run, trips, change, reason):
    path = trips.write(trips.make(60))
    lines = path.read_bytes().split(b"\n")
    lines[30] = change(lines[30])
    path.write_bytes(b"\n".join(lines))
    prepared = run("taxi", path)
    (entry,) = prepared.quarantine
    assert prepared.rows == {"read": 60, "written": 59, "quarantined": 1}
    assert (entry["row"], entry["reason"]) == (30, reason)
    if "fields" in reason:
        assert entry["record"] == lines[30].decode()
    else:
        assert entry["column"] == "company"


def test_quotes_and_newlines_in_fields_are_kept_wherever_the_file_is_cut(run, taxi_rows):
    company = 'The "Blue"\nCab, Inc.\n\nSouth'
    prepared = run(
        "taxi", [{**row, "company": company} for row in taxi_rows(80)], num_shards={"train": 23}
    )
    assert prepared.rows["written"] == 80
    assert {*prepared.values("company")} == {company.encode()}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: b"", r" .*empty"),
        (lambda text: b"a,b\n1,2\n", r"; it has a, b; .* it has a, b; and 13 more"),
        (lambda text: b"\n1,2\n", r": .*first line"),
        (lambda text: b"\xe4,b\n1,2\n", r": .*header.*UTF-8"),
        (lambda text: b"PAR1 but no Parquet", r" .*Parquet"),
        (lambda text: text.split("\n")[0].encode(), r" .*header.*no rows"),
        (lambda text: text.replace("trip_miles", "fare", 1).encode(), r": .*'fare'.*twice"),
        (lambda text: gzip.compress(text.encode())[:-300], r" .*gzip"),
        (lambda text: "\n".join([*text.split("\n")[:20], '"x']).encode(), ", row 20: .*quote"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused_by_name(tmp_path, run, trips, change, problem):
    path = trips.write(trips.make(300))
    path.write_bytes(change(path.read_text()))
    with pytest.raises(DataError, match=rf"trips\.csv{problem}"):
        run("taxi", path)
    assert not list(tmp_path.glob("*out-*"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({TIME: "1400000400"}, r"split .*empty.*trip_start_timestamp.*split_key"),
        ({"trip_miles": "-1"}, r"60 rows.*trip_miles 60"),
    ],
)
def test_without_rows_for_each_split_the_error_says_why(run, taxi_rows, change, problem):
    with pytest.raises(DataError, match=problem):
        run("taxi", [row | change for row in taxi_rows(60)], max_quarantine=1)


def test_too_many_bad_rows_stop_the_run_with_columns_values_and_rows(
    tmp_path, run, taxi_rows, write_csv
):
    rows = taxi_rows(100)
    for number in range(10, 15):
        rows[number]["trip_miles"] = f"-{number}"
    rows[70]["fare"] = "abc"
    path = write_csv(rows)
    with pytest.raises(DataError) as caught:
        run("taxi", path, num_shards={"train": 3})
    told = str(caught.value)
    assert told.startswith(
        "6 of 100 rows (6.0%) are bad, and max_quarantine is 5.0%: trip_miles 5 "
        f"({path} row 11: -10 is impossible; allowed: 0 to 3,500 miles; row 12: -11 is impossible; "
    )
    assert f"fare 1 ({path} row 71: 'abc' is not a number)" in told
    assert "row 14" not in told
    assert not list(tmp_path.glob("*out-*"))
    prepared = run("taxi", path, max_quarantine=0.06)
    assert prepared.rows["quarantined"] == 6
    assert prepared.manifest["settings"]["max_quarantine"] == 0.06


def test_a_derived_feature_of_the_input_is_not_read(run, taxi_rows):
    rows = taxi_rows(60)
    hours = ("", "7.25", "99", "noon", "nan")
    other = [{**row, "trip_start_hour": hours[at % 5]} for at, row in enumerate(rows)]
    for row in rows:
        del row["trip_start_hour"], row["trip_start_day"]
    prepared = run("taxi", other)
    assert prepared.rows["written"] == 60
    assert prepared.shards == run("taxi", rows).shards


def test_a_limit_takes_the_first_rows_over_all_files(tmp_path, run, taxi_rows, write_csv):
    rows = taxi_rows(120)
    files = [write_csv(rows[:50], "a.csv"), write_csv(rows[50:], "b.csv")]
    prepared = run("taxi", *files, max_examples=70, compression="none", num_shards={})
    assert prepared.rows["read"] == 70
    assert prepared.manifest["compression"] == ""
    assert "train-00000-of-00004.tfrecord" in prepared.shards
    assert {*prepared.values(TIME)} == {int(row[TIME]) for row in rows[:70]}
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(files[0].read_bytes()))
    prepared = run("taxi", tmp_path / "a.csv.gz", files[1], max_examples=30)
    assert prepared.rows["read"] == 30
    assert [source["file"] for source in prepared.manifest["sources"]] == ["a.csv.gz"]


def test_results_merge_in_any_order():
    def part(file):
        statistics = {split: {} for split in ("train", "eval", "test")}
        tally = Tally(read=1, quarantined=Counter(fare=1))
        shard = {"file": file, "split": "train", "num_examples": 1}
        return PartResult([shard], [], statistics, tally)

    merged = finish([part("b"), part("a")])
    assert [shard["file"] for shard in merged["splits"]["train"]["shards"]] == ["a", "b"]
    assert (merged["tally"]["read"], merged["tally"]["quarantined"]) == (2, {"fare": 2})


def test_a_killed_run_leaves_no_folder_that_looks_complete(tmp_path, run, taxi_rows, monkeypatch):
    monkeypatch.setattr(RecordFile, "finish", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    fork = multiprocessing.get_context("fork").Process(target=run, args=("taxi", taxi_rows(60)))
    fork.start()
    fork.join(60)
    assert fork.exitcode == -signal.SIGKILL
    assert list(tmp_path.glob(".out-*/.train-*.partial"))
    assert not list(tmp_path.glob("out-*"))
    assert not list(tmp_path.rglob("manifest.json"))


def test_rows_of_bigquery_become_examples(run, big_query, taxi_rows, write_csv):
    table = arrow_csv.read_csv(write_csv(taxi_rows(50)))
    times = table[TIME].cast(pa.timestamp("s")).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index(TIME), TIME, times)
    table = table.append_column("unique_key", pa.array([f"{number:040x}" for number in range(50)]))
    big_query(*table.select(SOURCE.bigquery.columns).to_batches())
    prepared = run("taxi", source="bigquery", project="p", limit=50)
    assert prepared.rows["written"] == 50
    assert prepared.manifest["query"].endswith("LIMIT 50")
    assert "by a hash of unique_key" in prepared.manifest["split_rule"]
    example = min(prepared.examples(), key=lambda item: item[TIME])
    assert example[TIME] == [1_400_000_400]  # Tuesday 13 May 2014, 17:00
    parts = [example[f"trip_start_{name}"] for name in ("hour", "day", "month")]
    assert parts == [[17], [3], [5]]
    assert "unique_key" not in example
