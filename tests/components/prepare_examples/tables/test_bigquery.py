import datetime

import pyarrow as pa
import pytest
from google.api_core.exceptions import Forbidden
from pyarrow import parquet

from components.prepare_examples.cli import main
from components.prepare_examples.errors import DataError
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.reading import bigquery
from components.prepare_examples.tables.reading.bigquery import fetch_rows
from components.prepare_examples.tables.step import explain_query
from trainer.workloads import load_workload

pytestmark = pytest.mark.fast

TAXI = load_workload("taxi")

QUERY = """\
SELECT
  unique_key,
  tips,
  fare,
  trip_miles,
  trip_seconds,
  pickup_latitude,
  pickup_longitude,
  dropoff_latitude,
  dropoff_longitude,
  trip_start_timestamp,
  pickup_community_area,
  dropoff_community_area,
  pickup_census_tract,
  dropoff_census_tract,
  payment_type,
  company
FROM `bigquery-public-data.chicago_taxi_trips.taxi_trips`
WHERE trip_start_timestamp >= TIMESTAMP '2016-01-01'
  AND trip_start_timestamp < TIMESTAMP '2017-01-01'
ORDER BY unique_key
LIMIT 1000"""


def query(**options) -> str:
    chosen = PrepareOptions(source="bigquery", project="p", **options)
    return explain_query(TAXI, chosen)


def batch(start, stop):
    return pa.record_batch({"unique_key": [f"{number:04d}" for number in range(start, stop)]})


def test_the_query_names_the_needed_columns_a_limit_and_the_days():
    assert query(limit=1000, dates=("2016-01-01", "2016-12-31")) == QUERY
    assert "WHERE" not in query(limit=5)


def test_rows_are_cached_in_groups_of_one_size_and_queried_once(tmp_path, big_query, monkeypatch):
    monkeypatch.setattr(bigquery, "GROUP_ROWS", 10)
    client = big_query(batch(0, 3), batch(3, 3), batch(3, 24), batch(24, 31))
    paths = [fetch_rows(TAXI, tmp_path / "cache", project="p", query=QUERY) for _ in range(2)]
    assert client.queries == [QUERY]
    assert paths[0] == paths[1]
    metadata = parquet.read_metadata(paths[0])
    groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert groups == [10, 10, 10, 1]
    assert parquet.read_table(paths[0])["unique_key"].to_pylist() == [f"{n:04d}" for n in range(31)]


def test_the_query_runs_again_when_the_table_has_changed(tmp_path, big_query):
    client = big_query(batch(0, 3))
    before = fetch_rows(TAXI, tmp_path, project="p", query=QUERY)
    client.modified += datetime.timedelta(seconds=1)
    assert fetch_rows(TAXI, tmp_path, project="p", query=QUERY) != before
    assert client.queries == [QUERY, QUERY]


def test_a_query_without_rows_leaves_no_file(tmp_path, big_query):
    big_query(batch(0, 0))
    with pytest.raises(DataError, match=r"no row.*dates"):
        fetch_rows(TAXI, tmp_path, project="p", query=QUERY)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_bigquery_says_what_to_do(tmp_path, big_query):
    big_query(error=Forbidden("billing is off"))
    with pytest.raises(OSError, match=r"project p: 403 billing is off; .*credentials"):
        fetch_rows(TAXI, tmp_path, project="p", query=QUERY)


def test_a_dry_run_prints_the_query_without_running_it(tmp_path, big_query, capsys):
    client = big_query()
    flags = ["--source", "bigquery", "--project", "p", "--limit", "1000"]
    dates = ["--dates", "2016-01-01,2016-12-31", "--dry-run"]
    output = ["--workload", "taxi", "--output-dir", str(tmp_path / "out")]
    assert main([*output, *flags, *dates]) == 0
    assert capsys.readouterr().out.startswith(QUERY)
    assert client.queries == []
