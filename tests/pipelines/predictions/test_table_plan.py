"""Tables without a label: the columns that a prediction needs."""

import csv

import pytest

from pipelines.predictions.inputs.tables import plan_tables, schema_for_predictions
from trainer.workloads import load_workload

pytestmark = pytest.mark.fast

TAXI = load_workload("taxi")


@pytest.fixture
def trips(tmp_path, taxi_rows):
    """Write trips, without some columns."""

    def write(*left_out: str) -> str:
        path = tmp_path / "trips.csv"
        with path.open("w", newline="") as file:
            names = [name for name in taxi_rows(1)[0] if name not in left_out]
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(taxi_rows())
        return str(path)

    return write


def test_neither_the_label_nor_what_only_it_needs_is_read(trips):
    schema = schema_for_predictions(TAXI)

    parts, unused = plan_tables([trips("tips", "pickup_census_tract")], schema, num_parts=2)

    assert len(parts) == 2
    assert unused == ["dropoff_census_tract"]
    assert "tips" not in schema.by_name
    assert "trip_start_timestamp" in schema.by_name  # the hour is a part of it
    assert plan_tables([trips()], schema, num_parts=1)[1][-1] == "tips"


def test_times_have_the_given_zone():
    zones = {one.time_zone for one in schema_for_predictions(TAXI, time_zone="UTC").times}

    assert zones == {"UTC"}
