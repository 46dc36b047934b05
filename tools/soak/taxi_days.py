"""The sample of real taxi trips, a file for each day."""

import csv
import datetime
from collections import defaultdict
from pathlib import Path

from components.prepare_examples.raw_data.fetch import fetch
from tests.support.data.csv_tables import write_table

CACHE = Path(__file__).resolve().parents[2] / ".trainyard" / "cache" / "taxi"


def write_taxi_days(folder: Path, *, first: str, last: str) -> dict[str, int]:
    """Write FOLDER/2015-06-01.csv and so on; return the number of trips of each day.

    The trips are fetched into this repository's cache if they are not there.
    """
    [path] = fetch("taxi", CACHE).values()
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    days = defaultdict(list)
    for row in rows:
        seconds = int(row["trip_start_timestamp"])  # wall time in Chicago
        day = datetime.datetime.fromtimestamp(seconds, datetime.UTC).date().isoformat()
        if first <= day <= last:
            days[day].append(row)
    for day, found in days.items():
        write_table(folder / f"{day}.csv", found)
    return {day: len(found) for day, found in days.items()}
