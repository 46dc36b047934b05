"""The table of Chicago taxi trips: its columns, their types and limits, and the label.

Used by the preparing of examples and by the model. Light commands import it, so it imports neither
TensorFlow nor numpy.

Data: City of Chicago, "Taxi Trips" (data.cityofchicago.org). The city's disclaimer: this site
provides applications using data that has been modified for use from its original source,
www.cityofchicago.org, the official website of the City of Chicago. The City of Chicago makes no
claims as to the content, accuracy, timeliness, or completeness of any of the data provided at this
site. The data provided at this site is subject to change at any time. It is understood that the
data provided at this site is being used at one's own risk.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The range of possible values; rows with others are quarantined."""

    low: int
    high: int
    unit: str = ""


FLOATS = (
    "fare",
    "trip_miles",
    "trip_seconds",
    "pickup_latitude",
    "pickup_longitude",
    "dropoff_latitude",
    "dropoff_longitude",
)
INTS = (
    "trip_start_hour",
    "trip_start_day",
    "trip_start_month",
    "trip_start_timestamp",
    "pickup_community_area",
    "dropoff_community_area",
    "pickup_census_tract",
    "dropoff_census_tract",
)
STRINGS = ("payment_type", "company")
FEATURES = (*FLOATS, *INTS, *STRINGS)

# The portal caps a trip at 86,400 s; community areas are numbered 1 to 77; census tracts are those
# of Illinois (17), whose Cook County is 17031; the box of coordinates holds all of Chicagoland.
LIMITS = {
    "fare": Limits(low=0, high=10_000, unit="$"),
    "tips": Limits(low=0, high=10_000, unit="$"),
    "trip_miles": Limits(low=0, high=3_500, unit="miles"),
    "trip_seconds": Limits(low=0, high=86_400, unit="s"),
    "pickup_latitude": Limits(low=41, high=43, unit="°"),
    "pickup_longitude": Limits(low=-89, high=-87, unit="°"),
    "dropoff_latitude": Limits(low=41, high=43, unit="°"),
    "dropoff_longitude": Limits(low=-89, high=-87, unit="°"),
    "trip_start_hour": Limits(low=0, high=23),
    "trip_start_day": Limits(low=1, high=7),
    "trip_start_month": Limits(low=1, high=12),
    "trip_start_timestamp": Limits(
        low=946_684_800, high=4_102_444_800, unit="s, the years 2000 to 2099"
    ),
    "pickup_community_area": Limits(low=1, high=77),
    "dropoff_community_area": Limits(low=1, high=77),
    "pickup_census_tract": Limits(low=17_000_000_000, high=17_999_999_999),
    "dropoff_census_tract": Limits(low=17_000_000_000, high=17_999_999_999),
}

LABEL = "big_tipper"
TIP_SHARE = 0.2
LABEL_RULE = f"tips > {TIP_SHARE} * fare"
LABEL_COLUMNS = ("fare", "tips")

TIME = "trip_start_timestamp"
TIME_ZONE = "America/Chicago"
# Features that follow from TIME, each with its unit of time.
DERIVED = {"trip_start_hour": "hour", "trip_start_day": "weekday", "trip_start_month": "month"}

ROW_KEY = "unique_key"
GROUP_KEY = ("taxi_id", TIME)  # splits rows where they have no ROW_KEY
KEYS = (ROW_KEY, "taxi_id")

# Known only after the trip was paid: never a feature.
LEAKAGE = ("tips", "tolls", "extras", "trip_total")
DROPPED = ("trip_end_timestamp", "pickup_location", "dropoff_location", *KEYS, *LEAKAGE)

REQUIRED = ("tips", *(name for name in FEATURES if name not in DERIVED))
# Without these a row has no label or no time; any other value may be missing.
NEVER_MISSING = (*LABEL_COLUMNS, TIME)

# The city portal's names of columns that BigQuery's table, whose names are used here, has as well.
PORTAL_NAMES = {
    "trip_id": "unique_key",
    "pickup_centroid_latitude": "pickup_latitude",
    "pickup_centroid_longitude": "pickup_longitude",
    "pickup_centroid_location": "pickup_location",
    "dropoff_centroid_latitude": "dropoff_latitude",
    "dropoff_centroid_longitude": "dropoff_longitude",
    "dropoff_centroid_location": "dropoff_location",
}


def make_label(columns: Mapping[str, Any]) -> Any:
    """Return the label of each row, 1 if the tip is big; `columns` are arrays of LABEL_COLUMNS."""
    return (columns["tips"] > columns["fare"] * TIP_SHARE).astype("int64")
