"""Rows of a window of days."""

import datetime

import pyarrow as pa
import pytest

from components.prepare_examples.declarations import declared
from components.prepare_examples.errors import DataError
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.table_schema import TableSchema, schema_of
from components.prepare_examples.tables.write import Period, period_of, within
from trainer.workloads.declarations.features import Timestamp

pytestmark = pytest.mark.fast
TIMES = ["2014-05-13T23:59", "2014-05-14T00:00", "2014-05-14T23:59", "2014-05-15T00:00"]
DAY = ("2014-05-14", "2014-05-14")


def seconds(text):
    return int(datetime.datetime.fromisoformat(f"{text}:00Z").timestamp())


@pytest.fixture
def schema() -> TableSchema:
    taxi = declared("taxi")
    return schema_of(taxi)


def test_a_period_has_its_first_and_last_day_whole(schema):
    period = period_of(schema, PrepareOptions(dates=DAY))
    rows = pa.table({"trip_start_timestamp": [*map(seconds, TIMES), None]})
    kept = within(rows, period)["trip_start_timestamp"].to_pylist()
    assert kept == [seconds(TIMES[1]), seconds(TIMES[2])]
    assert str(period) == "trip_start_timestamp from 2014-05-14 to 2014-05-14"


def test_the_query_of_bigquery_selects_its_days_itself(schema):
    options = PrepareOptions(source="bigquery", project="p", limit=1, dates=DAY)
    assert period_of(schema, options) is None


@pytest.mark.parametrize(
    ("columns", "column", "problem"),
    [
        ((), "", "by a Timestamp, and the workload w has none; name one"),
        (("a", "b"), "", "has several: a, b; name one"),
        (("a", "b"), "c", "time_column is 'c', which is no Timestamp.*it has a, b"),
    ],
)
def test_a_table_without_the_one_time_is_refused(schema, columns, column, problem):
    times = tuple(map(Timestamp, columns))
    other = TableSchema(**{**vars(schema), "workload": "w", "columns": times})
    with pytest.raises(DataError, match=problem):
        period_of(other, PrepareOptions(dates=DAY, time_column=column))


@pytest.mark.parametrize("name", ["b", "Zeit/UTC"])
def test_the_named_time_selects_the_rows(schema, name):
    times = tuple(map(Timestamp, "ab"))
    other = TableSchema(**{**vars(schema), "columns": times, "aliases": {"Zeit/UTC": "b"}})
    options = PrepareOptions(dates=("1970-01-02", "1970-01-02"), time_column=name)
    assert period_of(other, options) == Period("b", 86_400, 2 * 86_400)


def test_rows_outside_the_window_are_filtered_and_counted(run, taxi_rows):
    """The trips start at 2014-05-13T19:40, one every 15 minutes."""
    found = run("taxi", taxi_rows(300), window="2d", run_date="2014-05-16")
    in_two_days = 2 * 24 * 4
    assert found.rows == {"read": 300, "written": in_two_days, "filtered": 300 - in_two_days}
    assert found.manifest["settings"]["dates"] == ["2014-05-14", "2014-05-15"]


def test_a_window_without_a_row_names_its_days(run, taxi_rows):
    with pytest.raises(DataError, match="0 of 20 rows have a trip_start_timestamp from 20"):
        run("taxi", taxi_rows(20), window="1w")
