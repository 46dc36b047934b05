"""Chicago taxi trips: predict whether the tip is more than a fifth of the fare.

Data: City of Chicago, "Taxi Trips" (data.cityofchicago.org). The city's disclaimer: this site
provides applications using data that has been modified for use from its original source,
www.cityofchicago.org, the official website of the City of Chicago. The City of Chicago makes no
claims as to the content, accuracy, timeliness, or completeness of any of the data provided at this
site. The data provided at this site is subject to change at any time. It is understood that the
data provided at this site is being used at one's own risk.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from trainer.workloads import Binary, Category, Number, Recipe, Table, TimePart, Timestamp
from trainer.workloads.data_sets import TAXI

TIP_SHARE = 0.2


def is_big_tip(columns: Mapping[str, Any]) -> Any:
    """Return the label of each trip, 1 if the tip is big."""
    return (columns["tips"] > columns["fare"] * TIP_SHARE).astype("int64")


# The portal caps a trip at 86,400 s; community areas are numbered 1 to 77; census tracts are those
# of Illinois (17), whose Cook County is 17031; the box of coordinates holds all of Chicagoland.
amount = partial(Number, low=0, is_logarithmic=True, buckets=20)
latitude = partial(Number, low=41, high=43, unit="°", buckets=10, is_scaled=False)
longitude = partial(Number, low=-89, high=-87, unit="°", buckets=10, is_scaled=False)
area = partial(Category, low=1, high=77)
tract = partial(Category, low=17_000_000_000, high=17_999_999_999, is_used=False)
part = partial(TimePart, of="trip_start_timestamp")

workload = Table(
    [
        amount("fare", high=10_000, unit="$", is_required=True),
        amount("trip_miles", high=3_500, unit="miles"),
        amount("trip_seconds", high=86_400, unit="s"),
        latitude("pickup_latitude"),
        longitude("pickup_longitude"),
        latitude("dropoff_latitude"),
        longitude("dropoff_longitude"),
        part("trip_start_hour", part="hour", low=0, high=23),
        part("trip_start_day", part="weekday", low=1, high=7),
        part("trip_start_month", part="month", low=1, high=12),
        Timestamp(
            "trip_start_timestamp",
            time_zone="America/Chicago",
            low=946_684_800,
            high=4_102_444_800,
            unit="s, the years 2000 to 2099",
            is_required=True,
            is_used=False,
        ),
        area("pickup_community_area"),
        area("dropoff_community_area"),
        tract("pickup_census_tract"),
        tract("dropoff_census_tract"),
        Category("payment_type"),
        Category("company"),
    ],
    label=Binary(
        "big_tipper",
        names=("small tip", "big tip"),
        rule=is_big_tip,
        rule_columns=("fare", "tips"),
        rule_text=f"tips > {TIP_SHARE} * fare",
    ),
    key="unique_key",
    group_by=("taxi_id", "trip_start_timestamp"),
    # The tips are only read for the label; what is known only after the payment is no feature.
    only_read=[Number("tips", low=0, high=10_000, unit="$")],
    ignored=(
        *("trip_end_timestamp", "pickup_location", "dropoff_location"),
        *("tolls", "extras", "trip_total"),
    ),
    # The city portal's names of columns that BigQuery's table, whose names are used here, has.
    aliases={
        "trip_id": "unique_key",
        "pickup_centroid_latitude": "pickup_latitude",
        "pickup_centroid_longitude": "pickup_longitude",
        "pickup_centroid_location": "pickup_location",
        "dropoff_centroid_latitude": "dropoff_latitude",
        "dropoff_centroid_longitude": "dropoff_longitude",
        "dropoff_centroid_location": "dropoff_location",
    },
    crosses=[
        ("pickup_community_area", "dropoff_community_area"),
        ("trip_start_day", "trip_start_hour"),
        ("payment_type", "fare"),
        ("payment_type", "company"),
        ("payment_type", "trip_start_month"),
    ],
    hidden_units=(64, 32),
    source=TAXI,
    recipe=Recipe(learning_rate=2e-3, weight_decay=2.0, average_decay=0.99, part_size=128),
)
