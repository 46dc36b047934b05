"""The sample of real taxi trips, a file for each day."""

import csv
import datetime
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.fetch import fetch
from components.start.step import Start, start_run
from tests.support.data.csv_tables import write_table

CACHE = Path(__file__).resolve().parents[3] / ".trainyard" / "cache" / "taxi"


def write_taxi_days(folder: Path, *, first: str, last: str) -> dict[str, int]:
    """Write FOLDER/2015-06-01.csv and so on; return the number of trips of each day.

    The trips are fetched into this repository's cache if they are not there.
    """
    try:
        [path] = fetch("taxi", CACHE).values()
    except (DataError, OSError) as error:
        pytest.skip(f"the sample of taxi trips cannot be fetched: {error}")
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


def look_at_days(folder: Path, **settings: Any) -> Start:
    """Return what a run's first step says about the data; the settings are its own."""
    return start_run(
        None,  # the registry is looked at only for a repeated run
        run="r",
        model_name="taxi",
        workload="taxi",
        data_dir=str(folder),
        trust_files=False,
        **settings,
    )
