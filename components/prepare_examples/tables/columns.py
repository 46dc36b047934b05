"""The columns of the Chicago taxi trips: their names, types, limits, and what becomes of them.

Data: City of Chicago, "Taxi Trips" (data.cityofchicago.org). The city's disclaimer: this site
provides applications using data that has been modified for use from its original source,
www.cityofchicago.org, the official website of the City of Chicago. The City of Chicago makes no
claims as to the content, accuracy, timeliness, or completeness of any of the data provided at this
site. The data provided at this site is subject to change at any time. It is understood that the
data provided at this site is being used at one's own risk.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from components.prepare_examples.errors import DataError

LABEL = "big_tipper"
LABEL_RULE = "tips > 0.2 * fare"
TIP_SHARE = 0.2

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

TIME_ZONE = "America/Chicago"
DERIVED = ("trip_start_hour", "trip_start_day", "trip_start_month")
KEYS = ("unique_key", "taxi_id")

# Known only after the trip was paid, or no property of a trip: never a feature.
LEAKAGE = ("tips", "tolls", "extras", "trip_total")
DROPPED = ("trip_end_timestamp", "pickup_location", "dropoff_location", *KEYS, *LEAKAGE)

REQUIRED = ("tips", *(name for name in FEATURES if name not in DERIVED))
KNOWN = {*FEATURES, *DROPPED}

PORTAL_NAMES = {
    "trip_id": "unique_key",
    "pickup_centroid_latitude": "pickup_latitude",
    "pickup_centroid_longitude": "pickup_longitude",
    "pickup_centroid_location": "pickup_location",
    "dropoff_centroid_latitude": "dropoff_latitude",
    "dropoff_centroid_longitude": "dropoff_longitude",
    "dropoff_centroid_location": "dropoff_location",
}


@dataclass(frozen=True)
class Limits:
    """What a value can possibly be; anything else is quarantined."""

    low: float
    high: float
    unit: str = ""


# The portal caps a trip at 86,400 s; community areas are numbered 1 to 77; census tracts are those
# of Illinois (17), whose Cook County is 17031; the box of coordinates holds all of Chicagoland.
LIMITS = {
    "fare": Limits(0, 10_000, "$"),
    "tips": Limits(0, 10_000, "$"),
    "trip_miles": Limits(0, 3_500, "miles"),
    "trip_seconds": Limits(0, 86_400, "s"),
    "pickup_latitude": Limits(41, 43, "°"),
    "pickup_longitude": Limits(-89, -87, "°"),
    "dropoff_latitude": Limits(41, 43, "°"),
    "dropoff_longitude": Limits(-89, -87, "°"),
    "trip_start_hour": Limits(0, 23),
    "trip_start_day": Limits(1, 7),
    "trip_start_month": Limits(1, 12),
    "trip_start_timestamp": Limits(946_684_800, 4_102_444_800, "s, the years 2000 to 2099"),
    "pickup_community_area": Limits(1, 77),
    "dropoff_community_area": Limits(1, 77),
    "pickup_census_tract": Limits(17_000_000_000, 17_999_999_999),
    "dropoff_census_tract": Limits(17_000_000_000, 17_999_999_999),
}

# Without these there is no label, or no time; every other one may be missing.
NEVER_MISSING = ("fare", "tips", "trip_start_timestamp")


# Row numbers that pandas writes before a table's columns.
INDEX_NAMES = {"", "unnamed:_0", "__index_level_0__"}


def canonical_name(name: str) -> str:
    """The BigQuery table's name of a column, from the portal's names too (`Trip Seconds`)."""
    plain = "_".join(name.strip().lower().split())
    return PORTAL_NAMES.get(plain, plain)


def check_header(names: Iterable[str], *, file: str, ignored: Iterable[str] = ()) -> list[str]:
    """The canonical names of a file's columns.

    Raises:
        DataError: a column is missing, unknown or there twice; names the file and the column.
    """
    columns = [canonical_name(name) for name in names]
    for name in columns:
        if columns.count(name) > 1:
            raise DataError(f"{file}: the column {name!r} is there twice")
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise DataError(
            f"{file}: the column {missing[0]!r} is missing (all that are: {', '.join(missing)}); "
            f"it has {', '.join(columns)}"
        )
    ignored = INDEX_NAMES | {canonical_name(name) for name in ignored}
    unknown = [name for name in columns if name not in KNOWN and name not in ignored]
    if unknown:
        raise DataError(
            f"{file}: the column {unknown[0]!r} is not one of the taxi table's; take it out, or "
            f"name it in ignore_columns ({', '.join(unknown)})"
        )
    return columns
